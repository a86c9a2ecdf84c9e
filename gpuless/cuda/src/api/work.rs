//! Work of the runtime on streams: counted as running from its launch to its end, in captures from each launch of the graph on.
use super::errors::{self, Failure};
use super::graves::Running;
use super::kernels::{Configuration, Kernels};
use super::streams::Target;
use gpuless_device::{Done, LaunchNode, NodeKind, Start};
use std::sync::Arc;

/// Puts a short function on a stream, which graphs know as this.
pub(super) fn put(target: &Target, kind: NodeKind, f: Arc<dyn Fn() + Send + Sync>) {
    let again = Arc::clone(&f);
    let node = move |_: u64| -> Option<Vec<Start>> {
        let (running, f) = (Running::begin(), Arc::clone(&again));
        Some(vec![Box::new(move |done: Done| {
            f();
            drop(running);
            done.finish();
        })])
    };
    if !target.stream.capture_launch_of(kind, Arc::new(node)) {
        let running = Running::begin();
        target.stream.host_fn(Box::new(move || {
            f();
            drop(running);
        }));
    }
}

/// A kernel with everything that its launch needs.
pub(super) struct Kernel {
    pub kernels: Arc<dyn Kernels>,
    pub name: Arc<str>,
    pub device: usize,
    pub configuration: Configuration,
    pub parameters: Vec<u8>,
}

impl Kernel {
    /// Begins the kernel when its stream has reached it. Nothing begins on a device where a kernel has failed.
    fn start(&self, running: Running, done: Done) {
        if errors::check(self.device).is_err() {
            drop(running);
            return done.finish();
        }
        let ending =
            Ending { device: self.device, name: Arc::clone(&self.name), told: false, _running: running, _done: done };
        let ended = Box::new(move |result| ending.end(result));
        self.kernels.launch(self.device, &self.name, &self.configuration, &self.parameters, ended);
    }
}

/// A library's node that begins a kernel at each launch of the graph.
pub(super) fn kernel_node(kernel: Arc<Kernel>) -> LaunchNode {
    Arc::new(move |_| {
        let (running, kernel) = (Running::begin(), Arc::clone(&kernel));
        Some(vec![Box::new(move |done| kernel.start(running, done))])
    })
}

/// Puts a kernel on a stream.
pub(super) fn launch(target: &Target, kernel: Kernel) {
    let kernel = Arc::new(kernel);
    if !target.stream.capture_launch(kernel_node(Arc::clone(&kernel))) {
        let running = Running::begin();
        target.stream.launch(Box::new(move |done| kernel.start(running, done)));
    }
}

/// A kernel that has begun. If dropped, it has failed; its memory is released before the stream continues.
struct Ending {
    device: usize,
    name: Arc<str>,
    told: bool,
    _running: Running,
    _done: Done,
}

impl Ending {
    fn end(mut self, result: Result<(), String>) {
        self.told = true;
        if let Err(text) = result {
            self.fail(text);
        }
    }

    fn fail(&self, text: String) {
        errors::fail(Failure { device: self.device, kernel: self.name.to_string(), text });
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.told {
            self.fail("whoever executes it has given it up".to_owned());
        }
    }
}
