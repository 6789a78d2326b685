//! What could not be done, why, and the remedy: one list for runtime and report.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $bit:literal => $text:literal,)+) => {
        /// Why something asked for was not done. A process collects them as bits.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Reason { $($(#[$doc])* $name = $bit,)+ }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// One sentence: what, why, the remedy.
            #[must_use]
            pub fn sentence(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Its name in JSON reports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)+ }
            }
        }
    };
}

reasons! {
    /// Kernel too old.
    KernelTooOld = 0 => "pages stay where they are: this kernel has no UFFDIO_MOVE; run Linux 6.8 or newer (7.3 for the best)",
    /// userfaultfd not permitted.
    NotPermitted = 1 => "pages stay where they are: userfaultfd is not permitted here; give read and write access to /dev/userfaultfd, or run as root",
    /// The user or program chose a memory policy.
    PolicySet = 2 => "pages stay where the program's own memory policy put them; drop numactl or set_mempolicy to let Quartier move them",
    /// The program pinned its threads.
    AffinitySet = 3 => "threads with an affinity of their own were left alone; drop the program's own pinning (OMP_PROC_BIND, taskset) to let Quartier place them",
    /// The program uses userfaultfd.
    UsesUserfaultfd = 4 => "pages stay where they are from the moment the program used userfaultfd itself; nothing to do",
    /// Some pages could not be taken.
    PagesBusy = 5 => "some pages stay where they are because they are pinned, locked or shared after a fork; nothing to do",
    /// Address space or memory limit.
    NoRoom = 6 => "pages stay where they are: the limit on the program's memory leaves no room for the bookkeeping; raise `ulimit -v` or `ulimit -d`, or set vm.overcommit_memory to 0",
    /// No helper could be started.
    NoHelper = 7 => "pages stay where they are: the helper process could not be started; raise `ulimit -u`",
    /// Turned off.
    TurnedOff = 8 => "pages stay where they are: QUARTIER_NEXT_TOUCH=off is set; unset it to let them move",
    /// A real fork ended the marking.
    Forked = 9 => "marked pages were given back before a fork, so that the child has them; nothing to do",
    /// Raw forks cannot be followed.
    ForkUnseen = 10 => "a program that forks by a raw system call, past the C library, cannot be followed without CAP_SYS_PTRACE; run as root if it does, or use --policy first-touch",
    /// More threads than records.
    TooManyThreads = 11 => "some threads were not placed: their number is over what the runtime can follow; nothing to do",
    /// The decision tree found no CPU.
    NoCpu = 12 => "some threads were not placed: no allowed CPU is online; widen the cpuset or affinity",
    /// Somebody killed the helper while it held data.
    HelperKilled = 14 => "the program was ended because its helper process was killed: its data would have read as zeros; leave processes named quartier-helper alone",
    /// A range has a memory policy of its own.
    RangePolicySet = 15 => "memory that the program placed itself (mbind) stays where it put it; nothing to do",
    /// More ranges than the kernel's limit on mappings leaves room for.
    TooManyMappings = 16 => "some pages stay where they are: the program has so many mappings that following more would bring it near the kernel's limit; raise it with `sysctl vm.max_map_count`",
    /// Somebody killed the helper, which held nothing.
    HelperGone = 17 => "pages stay where they are from the moment its helper process was killed; leave processes named quartier-helper alone",
    /// The program moved memory by a system call that nobody sees.
    MovedUnseen = 18 => "pages stay where they are from the moment the program moved memory past the C library (mremap by a system call of its own); nothing to do",
    /// The kernel refused a range.
    MarkFailed = 13 => "some ranges could not be marked: the kernel refused them; run with --report to see the counts",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_bit_of_its_own_and_names_a_remedy() {
        let mut bits = 0u64;
        for reason in Reason::ALL {
            assert_eq!(bits >> (*reason as u8) & 1, 0, "{reason:?}");
            bits |= 1 << (*reason as u8);
            assert!(reason.sentence().contains(';'), "{reason:?} has no remedy");
        }
    }
}
