//! What the daemon may not do to other users' tasks, said at the start: whatever it may, it does.

use quartier_observe::tasks::Rules;
use rustix::thread::{CapabilitySet, capabilities};

/// A sentence for each capability that is missing, with what for.
pub fn lacking(applies: bool, rules: &Rules) -> Vec<String> {
    let mine = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.effective);
    lacking_of(mine, rustix::process::geteuid().is_root(), applies, rules)
}

fn lacking_of(mine: CapabilitySet, is_root: bool, applies: bool, rules: &Rules) -> Vec<String> {
    const REMEDY: &str = "run it as root, or as its systemd unit does";
    let wanted = [
        (
            true,
            CapabilitySet::SYS_PTRACE,
            "CAP_SYS_PTRACE it cannot know where other users' processes have their memory, so these are left \
             alone",
        ),
        (
            applies,
            CapabilitySet::SYS_NICE,
            "CAP_SYS_NICE it may not hold other users' threads, so these processes stay where they are",
        ),
    ];
    let missing =
        wanted.into_iter().filter(|(is_wanted, one, _)| *is_wanted && !mine.contains(*one));
    let mut sentences: Vec<_> =
        missing.map(|(_, _, what)| format!("without {what}; {REMEDY}")).collect();
    let reads_all = mine.intersects(CapabilitySet::DAC_READ_SEARCH | CapabilitySet::DAC_OVERRIDE);
    let knows_environments = reads_all && mine.contains(CapabilitySet::SYS_PTRACE);
    if rules.ask_for_environment() && !knows_environments {
        sentences.push(
            "without CAP_DAC_READ_SEARCH and CAP_SYS_PTRACE it cannot read other users' environments, so \
             rules about those fit nobody else's processes; give both to it (the systemd unit says how), or use \
             names, users or control groups"
                .to_owned(),
        );
    }
    // Files of control groups are root's.
    let writes_groups = is_root || mine.contains(CapabilitySet::DAC_OVERRIDE);
    if applies && !rules.cpuset.is_empty() && !writes_groups {
        sentences.push(
            "without being root it may write cpuset.cpus of a control group only where that file is its user's (chown \
             it when the group is made); elsewhere threads are held one by one, whatever rules tasks.cpuset say"
                .to_owned(),
        );
    }
    sentences
}

#[cfg(test)]
mod tests {
    use quartier_observe::tasks::Who;

    use super::*;

    /// The words after "without" of each sentence.
    fn missing(mine: CapabilitySet, applies: bool, rules: &Rules) -> Vec<String> {
        let sentences = lacking_of(mine, false, applies, rules);
        let first = |text: &String| text.split(' ').nth(1).unwrap_or_default().to_owned();
        sentences.iter().map(first).collect()
    }

    #[test]
    fn what_is_missing_is_said_only_if_it_is_needed() {
        let rules = Rules::default();
        let (ptrace, nice) = (CapabilitySet::SYS_PTRACE, CapabilitySet::SYS_NICE);
        let none = CapabilitySet::empty();
        assert_eq!(missing(none, true, &rules), ["CAP_SYS_PTRACE", "CAP_SYS_NICE"]);
        assert_eq!(missing(none, false, &rules), ["CAP_SYS_PTRACE"]);
        assert_eq!(missing(ptrace, true, &rules), ["CAP_SYS_NICE"]);
        assert!(missing(ptrace | nice, true, &rules).is_empty());
    }

    #[test]
    fn rules_about_cpusets_need_their_files() {
        let who = Who { name: Some("x".to_owned()), ..Who::default() };
        let rules = Rules { cpuset: vec![who], ..Rules::default() };
        let unit = CapabilitySet::SYS_PTRACE | CapabilitySet::SYS_NICE;
        assert_eq!(missing(unit, true, &rules), ["being"]);
        assert!(missing(unit, false, &rules).is_empty(), "a dry run writes none");
        assert!(lacking_of(unit, true, true, &rules).is_empty());
        assert!(missing(unit | CapabilitySet::DAC_OVERRIDE, true, &rules).is_empty());
    }

    #[test]
    fn rules_about_environments_need_more() {
        let who = Who { environment: Some("QUARTIER".to_owned()), ..Who::default() };
        let rules = Rules { never: vec![who], ..Rules::default() };
        let unit = CapabilitySet::SYS_PTRACE | CapabilitySet::SYS_NICE;
        assert_eq!(missing(unit, true, &rules), ["CAP_DAC_READ_SEARCH"]);
        assert!(missing(unit | CapabilitySet::DAC_READ_SEARCH, true, &rules).is_empty());
        assert!(missing(CapabilitySet::all(), true, &rules).is_empty());
    }
}
