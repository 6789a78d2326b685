//! A process that has no descriptors left; by itself, since its limit is for all of its tests.

use quartier_observe::events::{Events, LiveEvents, Refused};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

#[test]
fn that_no_descriptors_are_left_is_said_and_none_is_lost() {
    let own = std::process::id();
    if let Err(refused) = LiveEvents.faults(own) {
        eprintln!("skipped: page faults cannot be sampled here: {refused:?}");
        return;
    }
    let limit = Rlimit { current: Some(32), ..getrlimit(Resource::Nofile) };
    setrlimit(Resource::Nofile, limit).unwrap();
    let fill = || {
        let mut open = Vec::new();
        loop {
            match LiveEvents.faults(own) {
                Ok(faults) => open.push(faults),
                Err(refused) => return (open.len(), refused),
            }
        }
    };
    let (nr, refused) = fill();
    assert_eq!(refused, Refused::NoDescriptors);
    assert!((1..32).contains(&nr), "{nr}");
    assert_eq!(fill(), (nr, Refused::NoDescriptors), "all were given back");
}
