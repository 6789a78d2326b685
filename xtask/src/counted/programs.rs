//! The programs that are counted: what each needs, how its input is made, and how it is run.

/// How a program uses its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// One thread fills it, then each works on its own part.
    PrivateParts,
    /// All threads read it.
    ReadByAll,
    /// In other ways: parts with borders that neighbours read, buffers that go from thread to thread.
    Otherwise,
}

/// A program of Debian's.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of its files.
    pub name: &'static str,
    /// How it uses its data.
    pub data: Data,
    /// Files that it needs, with what is in them.
    pub files: &'static [(&'static str, &'static str)],
    /// Commands that make its input in the working folder, each for `sh`.
    pub prepare: &'static [&'static str],
    /// The command, which reports name: words with a space between them.
    pub command: &'static str,
    /// What may stand before it to place it by hand; those of `lab compare` if there is none.
    pub hand: &'static [&'static str],
    /// The program placed by hand inside.
    pub hand_instead: Option<&'static str>,
    /// Too long for all policies, and for a second time by the clock: it is counted under these alone.
    pub policies: Option<&'static str>,
}

impl Program {
    /// Whether it is counted for a second time, with nothing slowed down.
    pub fn is_counted_by_the_clock(&self) -> bool {
        self.policies.is_none()
    }
}

const WATER: &str = "\
#include \"oplsaa.ff/forcefield.itp\"
#include \"oplsaa.ff/spce.itp\"
[ system ]
water
[ molecules ]
";

const DYNAMICS: &str = "\
integrator = md
dt = 0.002
cutoff-scheme = Verlet
coulombtype = Reaction-Field
rcoulomb = 0.9
rvdw = 0.9
gen_vel = yes
gen_temp = 300
gen_seed = 1
";

const POWER: (&str, &str) = ("power.py", include_str!("power.py"));
const POWER_SH: (&str, &str) = (
    "power.sh",
    "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=8 \
     exec /usr/bin/python3 power.py \"$@\"\n",
);
const POWER_BY_HAND: (&str, &str) = (
    "power-by-hand.sh",
    "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=8 \
     OMP_PLACES=cores OMP_PROC_BIND=close exec /usr/bin/python3 power.py \"$@\" by-hand\n",
);
const POWER_PTHREADS_BY_HAND: (&str, &str) = (
    "power-by-hand.sh",
    "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-pthread OPENBLAS_NUM_THREADS=8 \
     exec /usr/bin/python3 power.py \"$@\" by-hand\n",
);
const POWER_PTHREADS: (&str, &str) = (
    "power.sh",
    "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-pthread OPENBLAS_NUM_THREADS=8 \
     exec /usr/bin/python3 power.py \"$@\"\n",
);

/// By hand, for programs that know nothing of OpenMP: one node, or memory all around.
const WITHOUT_OPENMP: &[&str] =
    &["numactl --physcpubind=0-1 --membind=0", "numactl --interleave=all"];

/// The demonstration: as `numpy`, but smaller.
pub const DEMO: Program = Program {
    name: "numpy",
    data: Data::PrivateParts,
    files: &[POWER, POWER_SH, POWER_BY_HAND],
    prepare: &[],
    command: "sh power.sh 2560 30",
    hand: &["env OMP_PLACES=cores OMP_PROC_BIND=close"],
    hand_instead: Some("sh power-by-hand.sh 2560 30"),
    policies: None,
};

/// What is counted for `docs/results/`. Small enough that a run takes a minute or two in a guest, large
/// enough that its data does not fit a last level.
pub const PROGRAMS: [Program; 6] = [
    Program {
        command: "sh power.sh 2560 80",
        hand_instead: Some("sh power-by-hand.sh 2560 80"),
        ..DEMO
    },
    Program {
        name: "numpy-long",
        command: "sh power.sh 1808 1500",
        hand_instead: Some("sh power-by-hand.sh 1808 1500"),
        policies: Some("first-touch,hand,quartier"),
        ..DEMO
    },
    Program {
        name: "numpy-pthreads",
        data: Data::PrivateParts,
        files: &[POWER, POWER_PTHREADS, POWER_PTHREADS_BY_HAND],
        prepare: &[],
        command: "sh power.sh 2560 80",
        hand: WITHOUT_OPENMP,
        hand_instead: Some("sh power-by-hand.sh 2560 80"),
        policies: None,
    },
    Program {
        name: "gromacs",
        data: Data::Otherwise,
        files: &[("topol.top", WATER), ("run.mdp", DYNAMICS)],
        prepare: &[
            // As many times the equilibrated box as fit: elsewhere molecules would overlap at its borders.
            "gmx -quiet solvate -cs spc216 -box 5.58618 5.58618 5.58618 -o conf.gro -p topol.top",
            "gmx -quiet grompp -f run.mdp -c conf.gro -p topol.top -o run.tpr -maxwarn 5",
        ],
        command: "env OMP_NUM_THREADS=8 gmx -quiet mdrun -s run.tpr -ntmpi 1 -ntomp 8 -pin off \
                  -nsteps 20 -deffnm /tmp/out",
        hand: &["env OMP_PLACES=cores OMP_PROC_BIND=close", "numactl --interleave=all"],
        // As its manual has it: threads on cores, in order.
        hand_instead: Some(
            "env OMP_NUM_THREADS=8 gmx -quiet mdrun -s run.tpr -ntmpi 1 -ntomp 8 -pin on \
             -nsteps 20 -deffnm /tmp/out",
        ),
        policies: None,
    },
    Program {
        name: "tachyon",
        data: Data::ReadByAll,
        files: &[("scene.py", include_str!("scene.py"))],
        prepare: &["/usr/bin/python3 scene.py 20000 1024 > scene.dat"],
        command: "tachyon-nox scene.dat -numthreads 8 -o /tmp/out.tga",
        hand: WITHOUT_OPENMP,
        hand_instead: None,
        policies: None,
    },
    Program {
        name: "pigz",
        data: Data::Otherwise,
        files: &[("pigz.sh", "exec pigz -p 8 -c numbers > /tmp/out.gz\n")],
        prepare: &["seq 1 2500000 > numbers"],
        command: "sh pigz.sh",
        hand: WITHOUT_OPENMP,
        hand_instead: None,
        policies: None,
    },
];

/// The one of that name.
pub fn named(name: &str) -> anyhow::Result<Program> {
    PROGRAMS.into_iter().find(|program| program.name == name).ok_or_else(|| {
        let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
        anyhow::anyhow!("there is no program {name} here, only {}", known.join(", "))
    })
}
