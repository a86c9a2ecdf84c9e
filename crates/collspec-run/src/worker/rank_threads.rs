//! Rank threads: started when first needed, kept for the worker's life, each doing its tasks in turn.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Sender, channel};

/// A task for a rank's thread.
pub type Task = Box<dyn FnOnce() + Send>;

#[derive(Default)]
pub struct RankThreads {
    tasks: Vec<Sender<Task>>,
}

/// Bytes of stack in software: a thousand threads must fit.
pub const SMALL_STACK: usize = 2 << 20;
/// The stack size of a program's first thread: a library keeps whole topologies on the stack while it creates a communicator.
pub const LARGE_STACK: usize = 8 << 20;

impl RankThreads {
    /// Starts threads until there are this many, with this many bytes of stack. `panicked` receives the message of a panic; the
    /// thread continues.
    ///
    /// # Errors
    ///
    /// A thread cannot be started.
    pub fn ensure(
        &mut self,
        threads: usize,
        stack: usize,
        panicked: impl Fn(usize, String) + Clone + Send + 'static,
    ) -> std::io::Result<()> {
        while self.tasks.len() < threads {
            let rank = self.tasks.len();
            let (tasks, inbox) = channel::<Task>();
            let panicked = panicked.clone();
            std::thread::Builder::new().name(format!("rank {rank}")).stack_size(stack).spawn(move || {
                for task in inbox {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(task)) {
                        panicked(rank, panic_text(&*panic));
                    }
                }
            })?;
            self.tasks.push(tasks);
        }
        Ok(())
    }

    /// Gives a thread a task to do after its current ones.
    pub fn give(&self, rank: usize, task: Task) {
        // the threads never end, so the other side is always there
        if let Some(tasks) = self.tasks.get(rank) {
            let _ = tasks.send(task);
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".into())
}
