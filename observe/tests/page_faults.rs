//! Page faults of threads, as this machine's kernel samples them.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};

use quartier_observe::events::{Events, Extent, Fault, Faults, LiveEvents, Refused};

const PAGE: usize = 4096;

/// A thread that touches pages of memory that nobody has touched before, when it is told to.
struct Toucher {
    tid: u32,
    /// The first page of its memory.
    first: usize,
    touch: Sender<usize>,
    touched: Receiver<()>,
    thread: std::thread::JoinHandle<()>,
}

impl Toucher {
    /// Of so many pages, which are small ones whatever the machine prefers: less than a huge page each.
    fn of(nr_pages: usize) -> Self {
        let (tell, told) = channel();
        let (touch, touches) = channel::<usize>();
        let (say, touched) = channel();
        let thread = std::thread::spawn(move || {
            // Large enough to be a mapping of its own, and no page of it was touched yet.
            let mut memory: Vec<u8> = Vec::with_capacity((nr_pages + 1) * PAGE);
            let first = (memory.as_ptr() as usize).next_multiple_of(PAGE);
            tell.send((own_tid(), first)).unwrap();
            let offset = first - memory.as_ptr() as usize;
            for page in touches {
                memory.spare_capacity_mut()[offset + page * PAGE].write(1);
                say.send(()).unwrap();
            }
        });
        let (tid, first) = told.recv().unwrap();
        Self { tid, first, touch, touched, thread }
    }

    fn touch(&self, pages: impl IntoIterator<Item = usize>) {
        for page in pages {
            self.touch.send(page).unwrap();
            self.touched.recv().unwrap();
        }
    }

    fn end(self) -> u32 {
        drop(self.touch);
        self.thread.join().unwrap();
        self.tid
    }
}

fn own_tid() -> u32 {
    let link = std::fs::read_link("/proc/thread-self").unwrap();
    link.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

/// `None`, and said so, where this kernel or whoever runs the test does not let it be tried.
fn open(tid: u32) -> Option<Box<dyn Faults>> {
    match LiveEvents.faults(tid) {
        Ok(faults) => Some(faults),
        Err(refused @ (Refused::NotPermitted | Refused::Unsupported)) => {
            assert!(std::env::var_os("CI").is_none() || refused != Refused::Unsupported);
            eprintln!("skipped: page faults cannot be sampled here: {refused:?}");
            None
        }
        Err(other) => panic!("{other:?}"),
    }
}

fn take(faults: &mut dyn Faults) -> (Vec<Fault>, u64) {
    let mut taken = Vec::new();
    let lost = faults.take(&mut |fault| taken.push(fault));
    (taken, lost)
}

#[test]
fn each_sample_names_the_thread_and_what_it_touched() {
    let (one, two) = (Toucher::of(64), Toucher::of(64));
    let (Some(mut of_one), Some(mut of_two)) = (open(one.tid), open(two.tid)) else { return };
    one.touch((0..64).step_by(2));
    two.touch((1..64).step_by(2));
    for (toucher, faults, rest) in [(&one, &mut of_one, 0), (&two, &mut of_two, 1)] {
        let (taken, lost) = take(&mut **faults);
        assert_eq!(lost, 0);
        let is_own = |fault: &&Fault| fault.pid == std::process::id() && fault.tid == toucher.tid;
        assert_eq!(taken.iter().filter(is_own).count(), taken.len(), "{taken:?}");
        let inside = toucher.first..toucher.first + 64 * PAGE;
        let mut pages = BTreeMap::<usize, usize>::new();
        for fault in taken.iter().filter(|fault| inside.contains(&(fault.address as usize))) {
            *pages.entry((fault.address as usize - toucher.first) / PAGE).or_default() += 1;
        }
        // Huge pages would be touched once; those that were touched are all its own.
        assert!(!pages.is_empty());
        assert!(pages.keys().all(|page| page % 2 == rest), "{pages:?}");
        let (again, _) = take(&mut **faults);
        assert_eq!(again, [], "each is told once");
    }
    one.end();
    two.end();
}

#[test]
fn what_was_not_taken_in_time_is_counted_as_lost() {
    let toucher = Toucher::of(2000);
    let Some(mut faults) = open(toucher.tid) else { return };
    toucher.touch(0..1500);
    let (first, _) = take(&mut *faults);
    // That some were lost is told with the next that is not.
    toucher.touch(1500..1540);
    let (second, lost) = take(&mut *faults);
    let told = (first.len() + second.len()) as u64;
    if told + lost < 1500 {
        eprintln!("skipped: this machine gives huge pages, which fault too seldom: {told} told");
        return;
    }
    assert!(first.len() < 500, "a ring is small: {}", first.len());
    assert!(lost > 500, "{lost} lost, {} and {} told", first.len(), second.len());
    toucher.end();
}

#[test]
fn who_ended_is_no_trouble() {
    let ended = Toucher::of(1).end();
    assert_eq!(LiveEvents.faults(ended).unwrap_err(), Refused::Ended);
    assert_eq!(LiveEvents.faults(0).unwrap_err(), Refused::Ended, "nor do we sample ourselves");
    // One that ends while it is sampled.
    let toucher = Toucher::of(64);
    let Some(mut faults) = open(toucher.tid) else { return };
    toucher.touch(0..64);
    toucher.end();
    let (taken, _) = take(&mut *faults);
    assert!(!taken.is_empty(), "what it did before is still told");
    assert_eq!(take(&mut *faults), (vec![], 0));
}

/// Runs itself as somebody who may not.
#[test]
fn that_it_is_not_permitted_is_said_so() {
    const OF: &str = "QUARTIER_TEST_FAULTS_OF";
    if let Ok(tid) = std::env::var(OF) {
        let refused = LiveEvents.faults(tid.parse().unwrap()).unwrap_err();
        let counted = LiveEvents.counters(tid.parse().unwrap(), Extent::All).err();
        println!("faults {refused:?}, counters {counted:?}");
        return;
    }
    let test = std::env::current_exe().unwrap();
    // Nobody cannot read what may be below somebody's home.
    let folder = tempfile::Builder::new().permissions(everybody()).tempdir().unwrap();
    let copy = folder.path().join("test");
    std::fs::copy(test, &copy).unwrap();
    let run = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&copy)
        .args(["that_it_is_not_permitted_is_said_so", "--exact", "--nocapture"])
        .env(OF, std::process::id().to_string())
        .output();
    let Some(run) = run.ok().filter(|run| run.status.success()) else {
        eprintln!("skipped: setpriv cannot make this test somebody else");
        return;
    };
    let text = String::from_utf8_lossy(&run.stdout);
    assert!(text.contains("faults NotPermitted"), "{text}");
}

fn everybody() -> std::fs::Permissions {
    use std::os::unix::fs::PermissionsExt;
    std::fs::Permissions::from_mode(0o755)
}
