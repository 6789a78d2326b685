//! Functions that are sent, and run where they arrive.

use std::hint::black_box;
use std::sync::mpsc;

use quartier_percore::events::{Events, Outcome, Priority};

use super::{Case, NR_THREADS_MAX, Way, end_turn};

/// Each thread sends to itself: the cost of the mailbox alone, without a wait for another CPU.
pub fn mailboxes() -> Vec<Case> {
    let own = OwnMailbox(Events::new(NR_THREADS_MAX, 256));
    vec![
        Case {
            word: "sync-channel",
            name: "std's sync_channel, both ways",
            way: Box::new(OwnChannel),
        },
        Case { word: "events", name: "Events", way: Box::new(own) },
    ]
}

struct OwnMailbox(Events);

impl Way for OwnMailbox {
    fn run(&self, number: usize, times: u32) -> u32 {
        let mut listener = self.0.listen(number).expect("each thread has its own");
        let mut nr_wrong = 0;
        for at in 0..times {
            let sent = self.0.send(number, Priority::Normal, None, move || at);
            listener.run_pending(1);
            let outcome = black_box(sent.expect("there is room").wait());
            nr_wrong += u32::from(outcome != Outcome::Done(at));
            end_turn();
        }
        nr_wrong
    }
}

struct OwnChannel;

impl Way for OwnChannel {
    fn run(&self, _number: usize, times: u32) -> u32 {
        type Work = Box<dyn FnOnce() + Send>;
        let (send, listen) = mpsc::sync_channel::<Work>(256);
        let mut nr_wrong = 0;
        for at in 0..times {
            let (answer, reply) = mpsc::sync_channel(1);
            let work = move || answer.send(at).expect("it is waited for");
            send.send(Box::new(work)).expect("it is listened to");
            listen.recv().expect("one was sent")();
            nr_wrong += u32::from(black_box(reply.recv()) != Ok(at));
            end_turn();
        }
        nr_wrong
    }
}
