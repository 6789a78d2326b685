//! Folders of this machine, whose copies are bound to whatever CPUs there are.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use quartier_observe::{Host, Pid};

use super::*;

struct Scene {
    folder: tempfile::TempDir,
    roots: Option<Roots>,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("unit")).unwrap();
        fs::create_dir(folder.path().join("www")).unwrap();
        Self { folder, roots: None }
    }

    fn www(&self) -> PathBuf {
        self.folder.path().join("www")
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.www().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn begin(&mut self, kept: &[&str]) -> anyhow::Result<()> {
        let kept: Vec<_> = kept.iter().map(PathBuf::from).collect();
        let original = Original::new(&self.www(), &kept)?;
        let cpus = Host::live().process_limits(Pid::Own)?.cpus;
        let binding = Binding { cpus, node: None };
        let unit = self.folder.path().join("unit");
        self.roots = Some(Roots::begin(original, (&unit, "test"), vec![binding.clone(), binding])?);
        Ok(())
    }

    fn of(&self, copy: usize) -> PathBuf {
        self.roots.as_ref().unwrap().of_copy(copy)
    }

    /// Waits until all copies are as the original is.
    fn comes_into_step(&self) {
        let began = Instant::now();
        loop {
            let wanted = seen(&self.www());
            let have = [seen(&self.of(0)), seen(&self.of(1))];
            if have.iter().all(|have| *have == wanted) {
                return;
            }
            let status = self.roots.as_ref().unwrap().status();
            assert!(began.elapsed().as_secs() < 60, "{status:?}: {wanted:?}, {have:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Files with what is in them, when they changed and who may read them; folders; links.
fn seen(root: &Path) -> BTreeMap<PathBuf, (String, i64, u32)> {
    let mut all = BTreeMap::new();
    // The whole of one tree, also if the link changes meanwhile.
    let Ok(root) = root.canonicalize() else { return all };
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for item in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = item.path();
            let Ok(data) = path.symlink_metadata() else { continue };
            let (content, time, mode) = if data.is_dir() {
                folders.push(path.clone());
                (String::new(), 0, data.mode() & 0o555)
            } else if data.is_symlink() {
                (format!("-> {}", fs::read_link(&path).unwrap().display()), 0, 0)
            } else {
                let text =
                    String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).into_owned();
                (text, data.mtime_nsec() + data.mtime() * 1_000_000_000, data.mode() & 0o555)
            };
            all.insert(path.strip_prefix(&root).unwrap().to_owned(), (content, time, mode));
        }
    }
    all
}

#[test]
fn what_changes_comes_to_all_copies_and_what_does_not_stays_the_same_file() {
    let mut scene = Scene::new();
    scene.put("index.php", "1");
    scene.put("lib/a.php", "a");
    scene.put("run.sh", "#!/bin/sh");
    fs::set_permissions(scene.www().join("run.sh"), Permissions::from_mode(0o750)).unwrap();
    symlink("lib/a.php", scene.www().join("link")).unwrap();
    scene.begin(&[]).unwrap();
    scene.comes_into_step();
    let inode = |copy, path: &str| fs::metadata(scene.of(copy).join(path)).unwrap().ino();
    let before = [inode(0, "lib/a.php"), inode(0, "index.php")];
    assert_ne!(before[0], inode(1, "lib/a.php"), "each copy has its own");
    scene.put("index.php", "22");
    scene.put("lib/deep/er/b.php", "b");
    fs::remove_file(scene.www().join("run.sh")).unwrap();
    scene.comes_into_step();
    assert_eq!(inode(0, "lib/a.php"), before[0]);
    assert_ne!(inode(0, "index.php"), before[1]);
    // A folder that came later is watched as well.
    scene.put("lib/deep/er/b.php", "bb");
    scene.comes_into_step();
    let status = scene.roots.as_ref().unwrap().status();
    assert!(status.number >= 3 && status.files == 3 && status.not_in_step.is_none(), "{status:?}");
    let folder = scene.roots.as_ref().unwrap().folder.clone();
    scene.roots = None;
    assert!(!folder.exists(), "nothing is left");
}

#[test]
fn what_a_server_writes_is_refused_or_is_the_originals() {
    let mut scene = Scene::new();
    scene.put("index.php", "1");
    scene.put("data/pages/x", "old");
    scene.begin(&["data/pages"]).unwrap();
    let mode = |path: &str| fs::metadata(scene.of(0).join(path)).unwrap().mode();
    assert_eq!((mode("index.php") & 0o222, mode("data") & 0o222, mode("") & 0o222), (0, 0, 0));
    fs::write(scene.of(1).join("data/pages/x"), "new").unwrap();
    for root in [scene.www(), scene.of(0)] {
        assert_eq!(fs::read_to_string(root.join("data/pages/x")).unwrap(), "new");
    }
}

#[test]
fn what_is_no_folder_or_not_below_it_is_refused() {
    let mut scene = Scene::new();
    scene.put("a", "1");
    for kept in ["b", "/a", "../www/a", ""] {
        let refused = scene.begin(&[kept]).unwrap_err().to_string();
        assert!(refused.starts_with("--keep-one"), "{refused}");
    }
    fs::remove_dir_all(scene.www()).unwrap();
    let refused = format!("{:#}", scene.begin(&[]).unwrap_err());
    assert!(refused.contains("www: No such file"), "{refused}");
}

#[test]
fn what_does_not_fit_into_memory_is_refused_and_nothing_is_left() {
    let mut scene = Scene::new();
    scene.put("index.php", "1");
    scene.put("data/big", "");
    let big = fs::OpenOptions::new().write(true).open(scene.www().join("data/big")).unwrap();
    // Nothing of it is anywhere, but a copy would be.
    big.set_len(8 << 40).unwrap();
    let refused = scene.begin(&[]).unwrap_err().to_string();
    assert!(refused.contains("would take 16.0T") && refused.contains("--keep-one"), "{refused}");
    assert!(fs::read_dir(scene.folder.path().join("unit")).unwrap().next().is_none());
    scene.begin(&["data"]).unwrap();
    assert_eq!(fs::read_to_string(scene.of(0).join("index.php")).unwrap(), "1");
}

/// A deployment that renames a link.
#[test]
fn where_the_original_leads_to_may_change() {
    let mut scene = Scene::new();
    scene.put("a", "old");
    let next = scene.folder.path().join("next");
    fs::create_dir(&next).unwrap();
    fs::write(next.join("a"), "new").unwrap();
    let (www, old, new) =
        (scene.www(), scene.folder.path().join("old"), scene.folder.path().join("new"));
    fs::rename(&www, &old).unwrap();
    symlink(&old, &www).unwrap();
    scene.begin(&[]).unwrap();
    scene.comes_into_step();
    symlink(&next, &new).unwrap();
    fs::rename(&new, &www).unwrap();
    scene.comes_into_step();
    assert_eq!(fs::read_to_string(scene.of(1).join("a")).unwrap(), "new");
}

#[test]
fn what_a_killed_one_left_is_removed_by_the_next() {
    let mut scene = Scene::new();
    scene.put("a", "1");
    scene.begin(&[]).unwrap();
    let first = scene.roots.take().unwrap();
    let folder = first.folder.clone();
    first.state.is_over.store(true, Ordering::Relaxed);
    std::mem::forget(first);
    assert!(folder.exists());
    scene.begin(&[]).unwrap();
    assert!(!folder.exists());
    // Whatever the pointer says, nobody else's folder is.
    scene.roots = None;
    let theirs = scene.folder.path().join("theirs");
    fs::create_dir(&theirs).unwrap();
    symlink(&theirs, scene.folder.path().join("unit/roots")).unwrap();
    scene.begin(&[]).unwrap();
    assert!(theirs.exists());
}

/// Whoever owns a folder owns its copy, and could put something else there.
#[test]
fn what_was_put_into_a_tree_does_not_come_into_the_next() {
    let scene = Scene::new();
    scene.put("d/a", "ours");
    let listing = Arc::new(Listing::of(&scene.www(), &[], |_| ()).unwrap());
    let make = |name: &str, before: Option<&Tree>| {
        let path = scene.folder.path().join(name);
        Tree::make(path, &scene.www(), &listing, before, Patience::Whole).unwrap()
    };
    let first = make("1", None);
    let again = make("2", Some(&first));
    let inode = |tree: &Tree| fs::metadata(tree.path.join("d/a")).unwrap().ino();
    assert_eq!(inode(&first), inode(&again));
    let folder = again.path.join("d");
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    fs::write(folder.join("b"), "theirs").unwrap();
    fs::rename(folder.join("b"), folder.join("a")).unwrap();
    let third = make("3", Some(&again));
    assert_eq!(fs::read_to_string(third.path.join("d/a")).unwrap(), "ours");
    for tree in [first, again, third] {
        tree::remove(&tree.path);
        assert!(!tree.path.exists());
    }
}

/// Two files that always have the same number in the original, which changes each at once: a reader that goes through the link
/// once finds the same number in both.
#[test]
fn a_reader_sees_one_tree_or_the_other() {
    let mut scene = Scene::new();
    let (www, folder) = (scene.www(), scene.folder.path().to_owned());
    let version = |number: u32| {
        let at = folder.join(format!("v{number}"));
        fs::create_dir(&at).unwrap();
        for name in ["a", "b"] {
            fs::write(at.join(name), number.to_string()).unwrap();
        }
        at
    };
    fs::remove_dir(&www).unwrap();
    symlink(version(0), &www).unwrap();
    scene.begin(&[]).unwrap();
    let (root, is_over) = (scene.of(0), AtomicBool::new(false));
    let newest = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut newest = 0;
            // Once more after all has come into step: until then a busy machine may not have let it look.
            for is_last in std::iter::repeat_with(|| is_over.load(Ordering::Relaxed)) {
                let tree = root.canonicalize().unwrap();
                let [a, b] = ["a", "b"].map(|name| fs::read_to_string(tree.join(name)).unwrap());
                assert_eq!(a, b);
                newest = newest.max(a.parse::<u32>().unwrap());
                if is_last {
                    break;
                }
            }
            newest
        });
        for number in 1..8 {
            let new = folder.join("new");
            symlink(version(number), &new).unwrap();
            fs::rename(&new, &www).unwrap();
            std::thread::sleep(Duration::from_millis(300));
        }
        scene.comes_into_step();
        is_over.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    assert_eq!(newest, 7);
}

/// A file that is written to all the time does not keep all the others from the copies.
#[test]
fn what_never_stands_still_is_in_nobodys_way() {
    let mut scene = Scene::new();
    scene.put("log", "");
    let (www, is_over) = (scene.www(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut nr = 0_u64;
            while !is_over.load(Ordering::Relaxed) {
                nr += 1;
                fs::write(www.join("log"), vec![b'x'; 100_000 + nr as usize % 100_000]).unwrap();
            }
        });
        scene.begin(&[]).unwrap();
        scene.put("page", "1");
        let began = Instant::now();
        while fs::read_to_string(scene.of(1).join("page")).ok().as_deref() != Some("1") {
            assert!(began.elapsed().as_secs() < 60, "{:?}", scene.roots.as_ref().unwrap().status());
            std::thread::sleep(Duration::from_millis(20));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    scene.comes_into_step();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    /// Whatever becomes of the original, its copies come to be as it is.
    #[test]
    fn copies_come_into_step(
        steps in proptest::collection::vec((0..6u8, 0..5u8, 0..5u8, 0..3u64), 1..30),
    ) {
        let mut scene = Scene::new();
        scene.put("d0/f0", "first");
        scene.begin(&[]).unwrap();
        let www = scene.www();
        let folder = |at: u8| www.join(["d0", "d1", "d0/d2", "d1/d3", "d4\n\u{e9}"][at as usize]);
        for (what, at, name, wait) in steps {
            let file = folder(at).join(format!("f{name}"));
            // What cannot be done is left out.
            let _ = match what {
                0 => fs::create_dir_all(folder(at)),
                1 => fs::remove_dir_all(folder(at)),
                2 => fs::remove_file(&file),
                3 => fs::rename(&file, folder(name).join("f9")),
                4 => symlink("../f1", &file),
                _ => fs::write(&file, format!("{what} {at} {name} {wait}")),
            };
            std::thread::sleep(Duration::from_millis(wait * 30));
        }
        scene.comes_into_step();
    }
}
