//! What is opened, and what is refused.

use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use proptest::prelude::*;
use quartier_decide::dqdt::{Allowed, ClusterId, FreeMemory, Tree, Usage};
use quartier_decide::policy::{Thread, decide};
use quartier_model::{CpuId, SyntheticSpec};
use quartier_shared::{Create, SharedTree, UserTree};
use tempfile::TempDir;

fn tree(spec: &str) -> Tree {
    Tree::build(&spec.parse::<SyntheticSpec>().unwrap().machine().unwrap())
}

fn made(spec: &str) -> (TempDir, SharedTree) {
    let directory = TempDir::new().unwrap();
    let shared = SharedTree::create(directory.path(), &tree(spec), &Create::default()).unwrap();
    (directory, shared)
}

fn refused(directory: &Path) -> String {
    SharedTree::open(directory).unwrap_err().to_string()
}

fn overwrite(directory: &Path, file: &str, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(directory.join(file)).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

#[test]
fn two_that_open_it_see_each_others_threads() {
    let (directory, first) = made("4x2");
    let second = SharedTree::open(directory.path()).unwrap();
    assert_eq!(first.tree(), second.tree());
    let me = first.enter().unwrap();
    let ledger = first.ledger().unwrap();
    let record = ledger.count(me, CpuId(3)).unwrap();
    assert_eq!(second.estimates().nr_threads_on(CpuId(3)), 1);
    assert!(ledger.release(me, record));
    assert_eq!(second.estimates().nr_threads(ClusterId::ROOT), 0);
}

#[test]
fn what_the_refresher_writes_others_read_with_its_age() {
    let (directory, first) = made("2x2");
    let second = SharedTree::open(directory.path()).unwrap();
    assert_eq!(second.age(), None);
    assert!(first.try_become_refresher());
    assert!(!second.try_become_refresher(), "one at a time");
    let free = FreeMemory { pages: 5, blocks: [1; 10] };
    first.refresher().unwrap().tick(|_| Some(Usage::FULL), |_| Some(free));
    first.set_refreshed_now();
    assert_eq!(second.estimates().usage(ClusterId::ROOT), Some(Usage::FULL));
    assert_eq!(second.estimates().free_memory(ClusterId::ROOT).unwrap().pages, 10);
    assert!(second.age().unwrap().as_secs() < 60);
    drop(first);
    assert!(second.try_become_refresher());
}

#[test]
fn a_private_tree_can_be_opened_by_its_descriptors() {
    let shared = SharedTree::private(&tree("2x2")).unwrap();
    let path = |file: &File| {
        let fd = std::os::fd::AsRawFd::as_raw_fd(file);
        Path::new("/proc/self/fd").join(fd.to_string())
    };
    let (tree_file, threads_file) = shared.files();
    let other = SharedTree::open_files(&path(tree_file), &path(threads_file)).unwrap();
    let _ = shared.ledger().unwrap().count(shared.enter().unwrap(), CpuId(1)).unwrap();
    assert_eq!(other.estimates().nr_threads_on(CpuId(1)), 1);
}

#[test]
fn files_that_are_no_tree_are_refused_by_name() {
    let (directory, _) = made("4x2");
    let directory = directory.path();
    let whole = fs::read(directory.join("tree")).unwrap();
    let again = || fs::write(directory.join("tree"), &whole).unwrap();

    overwrite(directory, "tree", 0, b"\x7fELF");
    assert!(refused(directory).contains("is no decision tree"), "{}", refused(directory));
    again();
    overwrite(directory, "tree", 8, &99u32.to_le_bytes());
    assert!(refused(directory).contains("layout version 99, this program knows 1"));
    again();
    overwrite(directory, "tree", 24, &[7; 16]);
    assert!(refused(directory).contains("before this machine was started"));
    again();
    overwrite(directory, "tree", 16, &[7; 8]);
    assert!(refused(directory).contains("do not belong together"));
    again();
    overwrite(directory, "tree", 4096 + 21, &[7]);
    assert!(refused(directory).contains("topology is not what was written"));
    again();
    overwrite(directory, "tree", 72, &3u64.to_le_bytes());
    assert!(refused(directory).contains("do not fit"), "{}", refused(directory));
    again();
    for cut in [0, 40, 4095, 4096, 5000, whole.len() - 1] {
        fs::write(directory.join("tree"), &whole[..cut]).unwrap();
        let refused = refused(directory);
        let what = if cut < 8 { "is no decision tree" } else { "damaged" };
        assert!(refused.contains(what), "{cut}: {refused}");
    }
    again();
    let threads = fs::read(directory.join("threads")).unwrap();
    fs::write(directory.join("threads"), &threads[..100]).unwrap();
    assert!(refused(directory).contains("/threads is damaged"), "{}", refused(directory));
    fs::write(directory.join("threads"), threads).unwrap();
    assert!(SharedTree::open(directory).is_ok());
    fs::remove_file(directory.join("threads")).unwrap();
    assert!(refused(directory).contains("its file `threads` is not there"));
    fs::create_dir(directory.join("threads")).unwrap();
    assert!(SharedTree::open(directory).is_err());
}

/// Somebody's notes that happen to have the name, and the tree of another release, which its programs
/// may be using.
#[test]
fn what_is_not_ours_is_never_replaced() {
    let (directory, _) = made("2x2");
    let path = directory.path().join("tree");
    overwrite(directory.path(), "tree", 8, &99u32.to_le_bytes());
    let other_release = fs::read(&path).unwrap();
    for content in [b"notes\n".to_vec(), vec![b'x'; 9000], other_release] {
        fs::write(&path, &content).unwrap();
        let error = UserTree::join(directory.path(), &tree("2x2")).unwrap_err();
        assert!(!error.may_be_replaced(), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
}

#[test]
fn a_directory_where_others_may_write_is_not_trusted() {
    let (directory, _) = made("2x2");
    for mode in [0o777, 0o770, 0o1777] {
        fs::set_permissions(directory.path(), Permissions::from_mode(mode)).unwrap();
        let refused = refused(directory.path());
        assert!(refused.contains("not to be trusted: others may write there"), "{refused}");
    }
    let link = directory.path().join("link");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(directory.path(), &link).unwrap();
    assert!(refused(&link).contains("not a directory"));
}

#[test]
fn permissions_are_as_asked_for_whatever_the_umask() {
    let directory = TempDir::new().unwrap();
    let options = Create { threads_mode: 0o666, free_pages_min: Some(7) };
    let shared = SharedTree::create(directory.path(), &tree("2x2"), &options).unwrap();
    let mode = |file: &str| {
        fs::metadata(directory.path().join(file)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode("tree"), mode("threads")), (0o644, 0o666));
    assert_eq!(shared.free_pages_min(), Some(7));
}

#[test]
fn a_tree_of_another_machine_is_told_and_made_anew() {
    let directory = TempDir::new().unwrap();
    let at = directory.path().join("user");
    let first = UserTree::join(&at, &tree("4x2")).unwrap();
    let told = first.shared().check_is_of(&tree("2x2"), &at).unwrap_err().to_string();
    assert!(told.contains("describes another machine"), "{told}");
    let second = UserTree::join(&at, &tree("2x2")).unwrap();
    assert_eq!(second.shared().tree(), &tree("2x2"));
    drop((first, second));
}

#[test]
fn the_last_user_of_a_users_tree_removes_it() {
    let directory = TempDir::new().unwrap();
    let at = directory.path().join("user");
    let first = UserTree::join(&at, &tree("4x2")).unwrap();
    let second = UserTree::join(&at, &tree("4x2")).unwrap();
    let me = first.shared().enter().unwrap();
    let _ = first.shared().ledger().unwrap().count(me, CpuId(0)).unwrap();
    assert_eq!(second.shared().estimates().nr_threads_on(CpuId(0)), 1);
    drop(first);
    assert!(at.exists());
    drop(second);
    assert!(!at.exists());
}

#[test]
fn users_that_come_and_go_at_once_share_one_tree_or_none() {
    let directory = TempDir::new().unwrap();
    let at = directory.path().join("user");
    let tree = tree("2x2");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let user = UserTree::join(&at, &tree).unwrap();
                    assert!(user.shared().ledger().is_some());
                }
            });
        }
    });
    assert!(!at.exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever the files hold: an error, or a tree that decides.
    #[test]
    fn damaged_files_are_survived(
        damage in prop::collection::vec((any::<bool>(), 0u64..9000, any::<u64>()), 1..5),
    ) {
        let (directory, shared) = made("4x2");
        let directory = directory.path();
        drop(shared);
        for (in_tree, offset, word) in damage {
            let file = if in_tree { "tree" } else { "threads" };
            overwrite(directory, file, offset / 8 * 8, &word.to_le_bytes());
        }
        if let Ok(shared) = SharedTree::open(directory) {
            let allowed = Allowed::all(shared.tree());
            let decision = decide(&shared.estimates(), &Thread::new(Some(CpuId(1)), &allowed));
            prop_assert!(decision.is_some());
            if let (Some(me), Some(ledger)) = (shared.enter(), shared.ledger()) {
                let _ = ledger.place(me, &Thread::new(None, &allowed));
                let _ = shared.sweep(me);
                ledger.leave(me);
            }
        }
    }
}
