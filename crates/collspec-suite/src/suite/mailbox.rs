//! Messages from several threads to one, batched because waking the receiver costs more than most messages.
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A batch of this many messages is delivered at once.
const ENOUGH: usize = 64;
/// The longest time a message is held back: short enough not to be noticed, long enough for several small cases to end.
const GATHERING: Duration = Duration::from_millis(5);

/// A queue of messages from several senders to one receiver.
pub(super) struct Mailbox<M> {
    state: Mutex<State<M>>,
    wake: Condvar,
}

struct State<M> {
    messages: Vec<M>,
    /// Threads that may still send.
    senders: usize,
    receiver_is_there: bool,
    /// The number of messages that the receiver waits for; 0 if it is not waiting.
    awaited: usize,
}

impl<M> Mailbox<M> {
    /// A mailbox that has no senders yet.
    pub fn new() -> Self {
        let state = State { messages: Vec::new(), senders: 0, receiver_is_there: true, awaited: 0 };
        Self { state: Mutex::new(state), wake: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<M>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sender, which counts until it is dropped.
    pub fn sender(&self) -> Sender<'_, M> {
        self.state().senders += 1;
        Sender(self)
    }

    /// The only receiver; once it is dropped, messages are no longer accepted.
    pub fn receiver(&self) -> Receiver<'_, M> {
        Receiver(self)
    }
}

/// A thread's handle for sending.
pub(super) struct Sender<'a, M>(&'a Mailbox<M>);

impl<M> Sender<'_, M> {
    /// Sends these messages in order. False if the receiver is gone.
    pub fn send(&self, messages: &mut Vec<M>) -> bool {
        let mut state = self.0.state();
        if !state.receiver_is_there {
            return false;
        }
        state.messages.append(messages);
        if state.awaited > 0 && state.messages.len() >= state.awaited {
            state.awaited = 0;
            self.0.wake.notify_one();
        }
        true
    }
}

impl<M> Drop for Sender<'_, M> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.senders -= 1;
        if state.senders == 0 {
            self.0.wake.notify_one();
        }
    }
}

/// The handle for receiving.
pub(super) struct Receiver<'a, M>(&'a Mailbox<M>);

impl<M> Receiver<'_, M> {
    /// Waits for the next messages; empty once all have been received and all senders are gone.
    pub fn receive(&self) -> Vec<M> {
        let mut state = self.0.state();
        while state.messages.is_empty() && state.senders > 0 {
            state.awaited = 1;
            state = self.0.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.messages.len() < ENOUGH && state.senders > 0 {
            state.awaited = ENOUGH;
            let more = |state: &mut State<M>| state.messages.len() < ENOUGH && state.senders > 0;
            let waited = self.0.wake.wait_timeout_while(state, GATHERING, more);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.awaited = 0;
        std::mem::take(&mut state.messages)
    }
}

impl<M> Drop for Receiver<'_, M> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.receiver_is_there = false;
        state.messages.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn every_message_comes_once_and_those_of_a_thread_in_their_order() {
        let mailbox = Mailbox::new();
        let mut come = Vec::new();
        thread::scope(|scope| {
            for number in 0..3 {
                let sender = mailbox.sender();
                scope.spawn(move || {
                    for index in 0..1000 {
                        assert!(sender.send(&mut vec![(number, index), (number, index + 1000)]));
                    }
                });
            }
            let receiver = mailbox.receiver();
            loop {
                let some = receiver.receive();
                if some.is_empty() {
                    break;
                }
                come.extend(some);
            }
        });
        for number in 0..3 {
            let own: Vec<_> = come.iter().filter(|(n, _)| *n == number).map(|(_, index)| *index).collect();
            let sent: Vec<_> = (0..1000).flat_map(|index| [index, index + 1000]).collect();
            assert_eq!(own, sent);
        }
    }

    #[test]
    fn a_message_alone_is_not_held_back_until_others_come() {
        let mailbox = Mailbox::new();
        let (sender, receiver) = (mailbox.sender(), mailbox.receiver());
        assert!(sender.send(&mut vec!["alone"]));
        assert_eq!(receiver.receive(), ["alone"]);
        drop(sender);
        assert!(receiver.receive().is_empty(), "all senders are gone");
    }

    #[test]
    fn what_nobody_takes_any_more_is_not_sent() {
        let mailbox = Mailbox::new();
        let sender = mailbox.sender();
        drop(mailbox.receiver());
        assert!(!sender.send(&mut vec![1]));
    }

    #[test]
    fn a_sender_that_panics_is_gone() {
        let mailbox: Mailbox<u32> = Mailbox::new();
        let ended = thread::scope(|scope| {
            let sender = mailbox.sender();
            let ended = scope.spawn(move || {
                let _sender = sender;
                panic!("expected by the test");
            });
            assert!(mailbox.receiver().receive().is_empty());
            ended.join()
        });
        assert!(ended.is_err());
    }
}
