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
    /// Which part is counted, as `--phase` says it.
    pub phase: &'static str,
    /// The command, for `sh`.
    pub command: &'static str,
    /// What may stand before it to place it by hand; those of `lab compare` if there is none.
    pub hand: &'static [&'static str],
    /// The program placed by hand inside, for `sh`.
    pub hand_instead: Option<&'static str>,
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

/// By hand, for programs that know nothing of OpenMP: one node, or memory all around.
const WITHOUT_OPENMP: &[&str] =
    &["numactl --physcpubind=0-1 --membind=0", "numactl --interleave=all"];

/// The demonstration: as `numpy`, but smaller, and it says what it computed.
pub const DEMO: Program = Program {
    name: "numpy",
    files: &[],
    prepare: &["cp \"$HERE/power.py\" ."],
    phase: "parallel",
    command: "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=8 \
              exec /usr/bin/python3 power.py 3072 30 >> results.txt",
    hand: &["env OMP_PLACES=cores OMP_PROC_BIND=close"],
    hand_instead: Some(
        "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=8 \
         OMP_PLACES=cores OMP_PROC_BIND=close \
         exec /usr/bin/python3 power.py 3072 30 by-hand >> results.txt",
    ),
};

/// What is counted for `docs/results/`. Small enough that a run takes a minute or two in a guest, large
/// enough that its data does not fit a last level.
pub const PROGRAMS: [Program; 5] = [
    Program {
        name: "numpy",
        files: &[],
        prepare: &["cp \"$HERE/power.py\" ."],
        phase: "parallel",
        command: "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=8 \
                  exec /usr/bin/python3 power.py 4096 40",
        hand: &["env OMP_PLACES=cores OMP_PROC_BIND=close"],
        hand_instead: Some(
            "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-openmp OMP_NUM_THREADS=8 \
             OMP_PLACES=cores OMP_PROC_BIND=close exec /usr/bin/python3 power.py 4096 40 by-hand",
        ),
    },
    Program {
        name: "numpy-pthreads",
        files: &[],
        prepare: &["cp \"$HERE/power.py\" ."],
        phase: "parallel",
        command: "LD_LIBRARY_PATH=/usr/lib/x86_64-linux-gnu/openblas-pthread \
                  OPENBLAS_NUM_THREADS=8 exec /usr/bin/python3 power.py 4096 40",
        hand: WITHOUT_OPENMP,
        hand_instead: None,
    },
    Program {
        name: "gromacs",
        files: &[("topol.top", WATER), ("run.mdp", DYNAMICS)],
        prepare: &[
            "gmx -quiet solvate -cs spc216 -box 5 5 5 -o conf.gro -p topol.top",
            "gmx -quiet grompp -f run.mdp -c conf.gro -p topol.top -o run.tpr -maxwarn 5",
        ],
        phase: "parallel",
        command: "OMP_NUM_THREADS=8 exec gmx -quiet mdrun -s run.tpr -ntmpi 1 -ntomp 8 -pin off \
                  -nsteps 40 -deffnm /tmp/out",
        hand: &[],
        hand_instead: None,
    },
    Program {
        name: "tachyon",
        files: &[],
        prepare: &["/usr/bin/python3 \"$HERE/scene.py\" 20000 256 > scene.dat"],
        phase: "parallel",
        command: "exec tachyon-nox scene.dat -numthreads 8 -o /tmp/out.tga",
        hand: WITHOUT_OPENMP,
        hand_instead: None,
    },
    Program {
        name: "pigz",
        files: &[],
        prepare: &["seq 1 2500000 > numbers"],
        phase: "parallel",
        command: "exec pigz -p 8 -c numbers > /tmp/out.gz",
        hand: WITHOUT_OPENMP,
        hand_instead: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_survive_the_quotes_that_they_stand_in() {
        for program in PROGRAMS.iter().chain([&DEMO]) {
            for command in [Some(program.command), program.hand_instead].into_iter().flatten() {
                assert!(!command.contains('\''), "{command}");
            }
        }
    }
}
