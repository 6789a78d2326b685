//! Writing the result.

use std::path::Path;

use quartier_count::Taken;

/// Writes it to `path`, which is whole or not there.
pub fn write(taken: &Taken, path: &Path) -> Result<(), String> {
    let cannot = |why: &dyn std::fmt::Display| format!("cannot write {}: {why}", path.display());
    let text = serde_json::to_vec(taken).map_err(|error| cannot(&error))?;
    let unfinished = path.with_extension("unfinished");
    std::fs::write(&unfinished, text)
        .and_then(|()| std::fs::rename(&unfinished, path))
        .map_err(|error| cannot(&error))
}

#[cfg(test)]
mod tests {
    use quartier_count::{Ending, FORMAT};

    use super::*;

    fn taken() -> Taken {
        let (marks, slices) = (Vec::new(), Vec::new());
        let (refusal, translations) = (None, None);
        let ending = Ending::NeverBegan;
        Taken { format: FORMAT, ending, refusal, marks, slices, translations, noted: None }
    }

    #[test]
    fn the_result_is_read_back() {
        let folder = std::env::temp_dir().join(format!("quartier-report-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("result.json");
        write(&taken(), &path).unwrap();
        let read = Taken::parse(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(read.ending, Ending::NeverBegan);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_result_that_cannot_be_written_is_one_sentence() {
        let why = write(&taken(), Path::new("/nowhere/at/all.json")).unwrap_err();
        assert!(why.contains("/nowhere/at/all.json") && !why.contains('\n'), "{why}");
    }
}
