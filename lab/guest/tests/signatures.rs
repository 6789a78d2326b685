//! Nothing whose signature is missing or wrong gets into the cache.

use std::fs;
use std::path::Path;
use std::process::Command;

use quartier_lab::apt::{Mirror, PrivateApt};

/// An archive in `folder` with one suite: its index, and `release` as its signed description.
fn archive(folder: &Path, name: &str, release: &str) -> Mirror {
    let suite = folder.join("dists/bookworm");
    fs::create_dir_all(suite.join("main/binary-amd64")).unwrap();
    fs::write(suite.join("main/binary-amd64/Packages"), "").unwrap();
    fs::write(suite.join(name), release).unwrap();
    Mirror { uri: format!("file:{}", folder.display()), signed_by: None }
}

const RELEASE: &str = "Origin: Debian\nSuite: bookworm\nCodename: bookworm\n\
                       Date: Sat, 21 Nov 2026 00:00:00 UTC\nArchitectures: amd64\n\
                       Components: main\nSHA256:\n \
                       e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 \
                       main/binary-amd64/Packages\n";

const SIGNED_BY_NOBODY: &str = "-----BEGIN PGP SIGNATURE-----\n\n\
                                iHUEARYIAB0WIQQAAAAAAAAAAAAAAAAAAAAAAAAAAAUCZAAAAAAKCRAAAAAAAAAA\n\
                                =AAAA\n-----END PGP SIGNATURE-----\n";

#[test]
fn an_archive_without_a_good_signature_is_an_error() {
    if Command::new("apt-get").arg("--version").output().is_err() {
        println!("skipped: there is no apt here");
        return;
    }
    let clearsigned = format!(
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n{RELEASE}\n{SIGNED_BY_NOBODY}"
    );
    for (name, release) in [("Release", RELEASE), ("InRelease", &clearsigned)] {
        let folder = tempfile::tempdir().unwrap();
        let mirror = archive(&folder.path().join("archive"), name, release);
        let apt =
            PrivateApt::new(&folder.path().join("apt"), &mirror, &["bookworm"], false).unwrap();
        let error = apt.update().unwrap_err().to_string();
        assert!(
            ["not signed", "valid", "signature", "NO_PUBKEY"].iter().any(|w| error.contains(w)),
            "{error}"
        );
        assert!(apt.package_names("linux-").unwrap().is_empty());
    }
}
