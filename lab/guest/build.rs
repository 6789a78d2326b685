//! virtiofsd needs libcap-ng at link time. Every Debian has the library itself (util-linux uses
//! it), but its `-dev` package, which is nothing but a link to it for the linker, only on request:
//! where that is missing, this makes the link.

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/lib64", "/usr/lib"];
    let has = |name: &str| folders.iter().map(|f| Path::new(f).join(name)).find(|p| p.exists());
    if has("libcap-ng.so").is_some() {
        return;
    }
    let Some(library) = has("libcap-ng.so.0") else {
        println!("cargo:warning=libcap-ng is missing: on Debian, apt-get install libcap-ng-dev");
        return;
    };
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    let link = folder.join("libcap-ng.so");
    let _ = fs::remove_file(&link);
    if std::os::unix::fs::symlink(library, &link).is_ok() {
        println!("cargo:rustc-link-search=native={}", folder.display());
    }
}
