//! The programs that are counted: what each needs, how its input is made, and how it is run.

/// A program of Debian's.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The name of its files.
    pub name: &'static str,
    /// Files that it needs, with what is in them.
    pub files: &'static [(&'static str, &'static str)],
    /// Commands that make its input in the working folder; `sh` runs each, `$HERE` is the folder of our
    /// own scripts.
    pub prepare: &'static [&'static str],
    /// The command, for `sh`.
    pub command: &'static str,
    /// The program placed by hand inside, for `sh`.
    pub by_hand: Option<&'static str>,
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

/// What is counted. Small enough that a run takes minutes in a guest, large enough that its data does not
/// fit a last level.
pub const PROGRAMS: [Program; 4] = [
    Program {
        name: "numpy",
        files: &[],
        prepare: &["cp \"$HERE/power.py\" ."],
        command: "OMP_NUM_THREADS=8 exec /usr/bin/python3 power.py 2560 120",
        by_hand: Some(
            "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=8 \
             OMP_PLACES=cores OMP_PROC_BIND=close exec /usr/bin/python3 power.py 2560 120 by-hand",
        ),
    },
    Program {
        name: "gromacs",
        files: &[("topol.top", WATER), ("run.mdp", DYNAMICS)],
        prepare: &[
            "gmx -quiet solvate -cs spc216 -box 5 5 5 -o conf.gro -p topol.top",
            "gmx -quiet grompp -f run.mdp -c conf.gro -p topol.top -o run.tpr -maxwarn 5",
        ],
        command: "OMP_NUM_THREADS=8 exec gmx -quiet mdrun -s run.tpr -ntmpi 1 -ntomp 8 -pin off \
                  -nsteps 40 -deffnm /tmp/out",
        by_hand: None,
    },
    Program {
        name: "tachyon",
        files: &[],
        prepare: &["/usr/bin/python3 \"$HERE/scene.py\" 20000 256 > scene.dat"],
        command: "exec tachyon-nox scene.dat -numthreads 8 -o /tmp/out.tga",
        by_hand: None,
    },
    Program {
        name: "pigz",
        files: &[],
        prepare: &["seq 1 2500000 > numbers"],
        command: "exec pigz -p 8 -c numbers > /tmp/out.gz",
        by_hand: None,
    },
];
