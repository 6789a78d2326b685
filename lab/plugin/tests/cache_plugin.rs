//! Against a second cache simulator that we did not write: QEMU's own cache plugin, for one thread.
//!
//! A real program (gzip, on files of this workspace) runs in qemu-x86_64 with that plugin and with one that
//! writes all accesses (`trace.c`); the model is fed with these and must miss as often. The plugin is
//! in no package: it is compiled from QEMU's source, all of it from Debian 12, whose qemu-x86_64 is the last
//! that takes plugins. The plugin's semantics: an access is of the line that it begins in; first
//! levels and a second that is their CPU's, neither inclusive nor exclusive; least recently used.

use std::fs;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use quartier_lab::Cache;
use quartier_lab::apt::{Mirror, PrivateApt, unpack};
use quartier_memmodel::geometry::{
    Cache as Size, DataCache, Fill, Geometry, LastLevel, Preset, Side, WritePolicy,
};
use quartier_memmodel::{
    Access, Cpu, Layout, MemoryRange, Mode, Owner, PageSize, System, Totals, Translation,
};

/// Misses may differ by this share.
const MOST: f64 = 0.01;

const SUITE: &str = "bookworm";
/// In QEMU's source.
const NEEDED: [&str; 2] = ["*/contrib/plugins/cache.c", "*/include/qemu/qemu-plugin.h"];

/// Bytes and ways of the first levels and of the second.
const CACHES: [[(u64, u32); 2]; 3] = [
    [(32 << 10, 8), (1 << 20, 16)],
    [(16 << 10, 4), (256 << 10, 16)],
    [(4 << 10, 2), (64 << 10, 8)],
];

/// An emulator with both plugins.
struct Judge {
    folder: PathBuf,
}

impl Judge {
    /// Fetched and built once, and kept in the lab's cache.
    fn prepare() -> Result<Self, String> {
        let cache = Cache::from_environment().map_err(|error| error.to_string())?;
        let judge = Self { folder: cache.root().join("judges/cache-plugin") };
        let lock =
            cache.lock(|| eprintln!("waiting for whoever fetches")).map_err(|e| e.to_string())?;
        if !judge.folder.exists() {
            let unfinished = judge.folder.with_extension("unfinished");
            let _ = fs::remove_dir_all(&unfinished);
            fetch(&unfinished).map_err(|error| error.to_string())?;
            fs::rename(&unfinished, &judge.folder).map_err(|error| error.to_string())?;
        }
        drop(lock);
        judge.compile("libcache.so", &judge.folder.join("source/contrib/plugins/cache.c"));
        let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trace.c");
        judge.compile("libtrace.so", &ours);
        Ok(judge)
    }

    fn compile(&self, library: &str, source: &Path) {
        let unpacked = self.folder.join("unpacked/usr");
        let glib = ["include/glib-2.0", "lib/x86_64-linux-gnu/glib-2.0/include"];
        let output = Command::new("cc")
            .args(["-O2", "-shared", "-fPIC", "-o"])
            .arg(self.folder.join(library))
            .arg(source)
            .arg("-I")
            .arg(self.folder.join("source/include/qemu"))
            .args(glib.iter().flat_map(|part| [PathBuf::from("-I"), unpacked.join(part)]))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Feeds the model with a run of gzip; what the plugin says of it: accesses and misses of data,
    /// of instructions, and of the second level.
    fn run(
        &self,
        [(bytes, ways), (second, second_ways)]: [(u64, u32); 2],
        cpu: &mut Cpu,
    ) -> Vec<u64> {
        let folder = tempfile::tempdir().unwrap();
        let presets = Path::new(env!("CARGO_MANIFEST_DIR")).join("../memmodel/presets");
        for name in ["tsar.toml", "server.toml"] {
            fs::copy(presets.join(name), folder.path().join(name)).unwrap();
        }
        let log = folder.path().join("log");
        let caches = format!(
            "evict=lru,dcachesize={bytes},dassoc={ways},dblksize=64,icachesize={bytes},iassoc={ways},\
             iblksize=64,l2=on,l2cachesize={second},l2assoc={second_ways},l2blksize=64"
        );
        let plugin = |name: &str| self.folder.join(name).to_str().unwrap().to_owned();
        let mut emulator = Command::new(self.folder.join("unpacked/usr/bin/qemu-x86_64"))
            .env("LD_LIBRARY_PATH", self.folder.join("unpacked/usr/lib/x86_64-linux-gnu"))
            .args(["-d", "plugin", "-D"])
            .arg(&log)
            .args(["-plugin", &format!("{},{caches}", plugin("libcache.so"))])
            .args(["-plugin", &plugin("libtrace.so")])
            .args(["/usr/bin/gzip", "-9", "-k", "tsar.toml", "server.toml"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut trace = BufReader::new(emulator.stdout.take().unwrap());
        let mut word = [0; 8];
        while trace.read_exact(&mut word).is_ok() {
            feed(cpu, u64::from_le_bytes(word));
        }
        assert!(emulator.wait().unwrap().success());
        numbers(&fs::read_to_string(&log).unwrap())
    }
}

fn fetch(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let (apt, unpacked, source) =
        (folder.join("apt"), folder.join("unpacked"), folder.join("source"));
    let apt = PrivateApt::with_sources(&apt, &Mirror::of_host()?, SUITE)?;
    apt.update()?;
    let mut packages = apt.download_with_dependencies("qemu-user", SUITE)?;
    packages.extend(apt.download(&["libglib2.0-dev".to_owned()])?);
    packages.iter().try_for_each(|package| unpack(package, &unpacked))?;
    let archive =
        apt.download_source("qemu", ".orig.tar.xz")?.pop().ok_or("there is no archive")?;
    fs::create_dir_all(&source)?;
    let status = Command::new("tar")
        .args(["--extract", "--strip-components=1", "--wildcards", "--file"])
        .arg(archive)
        .arg("--directory")
        .arg(source)
        .args(NEEDED)
        .status()?;
    fs::remove_dir_all(folder.join("apt"))?;
    if status.success() { Ok(()) } else { Err("tar failed".into()) }
}

/// The second line of the log has the only CPU's numbers, with rates in percent between.
fn numbers(log: &str) -> Vec<u64> {
    let line = log.lines().nth(1).unwrap();
    line.split_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect()
}

/// One word of `trace.c`.
fn feed(cpu: &mut Cpu, word: u64) {
    let address = word & ((1 << 62) - 1);
    match word >> 62 {
        0 => cpu.fetch(address, Mode::User, &mut giant),
        1 => cpu.data(address, 1, Access::Load, Mode::User, &mut giant),
        _ => cpu.data(address, 1, Access::Store, Mode::User, &mut giant),
    }
}

fn giant(vaddr: u64) -> Option<Translation> {
    Some(Translation::new(vaddr & !((1 << 30) - 1), PageSize::Giant))
}

fn model([(bytes, ways), (second, second_ways)]: [(u64, u32); 2]) -> (std::sync::Arc<System>, Cpu) {
    let geometry = Geometry {
        l1i: Size { bytes, ways },
        l1d: DataCache { bytes, ways, write: WritePolicy::Back },
        l2: None,
        last_level: LastLevel {
            bytes: second,
            ways: second_ways,
            side: Side::Requester,
            fill: Fill::NonInclusive,
            cpus: None,
        },
        ..Preset::Server.geometry()
    };
    let memory = vec![MemoryRange { start: 0, end: 1 << 52, node: 0 }];
    let layout = Layout { memory, ..Layout::uniform(1, 1, 1 << 30) };
    let system = System::new(geometry, layout).unwrap();
    let mut cpu = system.cpu(0).unwrap();
    cpu.attribute(Some(Owner::Program));
    (system, cpu)
}

fn check(caches: [(u64, u32); 2], totals: &Totals, theirs: &[u64]) {
    let &[data, data_misses, fetches, fetch_misses, _, second_misses] = theirs else {
        panic!("{theirs:?} are not six numbers")
    };
    assert_eq!((totals.data_accesses, totals.fetches), (data, fetches), "the same run");
    assert!(data + fetches > 1_000_000, "{data} accesses are no real program");
    for (name, ours, theirs) in [
        ("data misses", totals.l1d_read_misses + totals.l1d_write_misses, data_misses),
        ("instruction misses", totals.l1i_misses, fetch_misses),
        ("misses of both levels", totals.memory_reads, second_misses),
    ] {
        println!("{caches:?} {name}: {ours} here, {theirs} in QEMU's plugin");
        let differs = (ours as f64 - theirs as f64).abs() / theirs as f64;
        assert!(differs <= MOST, "{caches:?} {name}: {ours} here, {theirs} in QEMU's plugin");
    }
}

#[test]
fn a_real_program_misses_as_often_as_in_qemus_cache_plugin() {
    let judge = match Judge::prepare() {
        Ok(judge) => judge,
        Err(why) => {
            assert!(std::env::var_os("CI").is_none(), "{why}");
            eprintln!("skipped: QEMU's cache plugin cannot be had: {why}");
            return;
        }
    };
    for caches in CACHES {
        let (system, mut cpu) = model(caches);
        let theirs = judge.run(caches, &mut cpu);
        check(caches, &system.snapshot().program.totals(), &theirs);
    }
}
