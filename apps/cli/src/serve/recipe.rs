//! Servers that need no configuration of the user's: `--recipe`.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use quartier_act::Program;

use super::copy::Config;
use super::together::Part;

/// `--recipe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Name {
    /// Apache httpd (event) with PHP-FPM
    ApachePhp,
    /// Apache httpd (prefork) with PHP-FPM
    ApachePreforkPhp,
    /// nginx with PHP-FPM
    NginxPhp,
    /// Refused, with the reason
    Memcached,
}

/// What a recipe comes to.
#[derive(Debug)]
pub struct Cooked {
    pub command: Vec<String>,
    pub configs: Vec<Config>,
    /// Words that its files have beside the usual ones, but for those that depend on the copy's CPUs.
    pub words: Vec<(&'static str, String)>,
}

/// Each copy has so many PHP processes for each of its CPUs.
const CHILDREN_PER_CPU: usize = 4;

/// Apache has so many threads for each CPU: of one process, or each of its own.
const THREADS_PER_CPU: usize = 64;

/// Debian's user for web servers.
const USER: &str = "www-data";

/// PHP remembers for two minutes where a link led, and what it has compiled for as long as that is there. (nginx gives it the path
/// behind the link; scripts may go through it all the same.)
const PHP_LINKS: &str =
    "php_admin_value[realpath_cache_ttl] = 1\nphp_admin_flag[opcache.revalidate_path] = on";

/// Words of a copy with so many CPUs.
pub fn words_for(cpus: usize) -> [(&'static str, String); 3] {
    [
        ("workers", cpus.to_string()),
        ("threads", (THREADS_PER_CPU * cpus).to_string()),
        ("children", (CHILDREN_PER_CPU * cpus).to_string()),
    ]
}

impl Name {
    /// The default name of the unit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ApachePhp => "apache-php",
            Self::ApachePreforkPhp => "apache-prefork-php",
            Self::NginxPhp => "nginx-php",
            Self::Memcached => "memcached",
        }
    }

    /// Finds the programs and makes the files.
    /// `has_copies`: each copy sees the folder through a link that changes.
    pub fn cook(self, root: Option<&Path>, has_copies: bool, port: u16) -> anyhow::Result<Cooked> {
        let Some((web, stop, reload, text)) = self.web() else {
            bail!("{}", super::must_not_be_copied(self.as_str()));
        };
        let root = root.context("--recipe needs --root DIR: what is to be served")?;
        check(root)?;
        let web_path = find(web)?;
        let php = find_php()?;
        let part = |command: &[&str], stop: &str, reload: &str| Part {
            command: command.iter().map(|word| (*word).to_owned()).collect(),
            stop: stop.to_owned(),
            reload: reload.to_owned(),
            // Of all three; Apache reloads then, which does no harm.
            reopen: "USR1".to_owned(),
        };
        let config = format!("{{dir}}/{web}.conf");
        let web_command: Vec<&str> = match self {
            Self::ApachePhp | Self::ApachePreforkPhp => {
                vec![&web_path, "-DFOREGROUND", "-f", &config]
            }
            // Else it writes into the system's log until it has read this file.
            _ => vec![&web_path, "-e", "{logs}/error.log", "-c", &config],
        };
        let parts = [
            part(&[&php, "--nodaemonize", "--fpm-config", "{dir}/php.conf"], "QUIT", "USR2"),
            part(&web_command, stop, reload),
        ];
        let modules = Path::new(&web_path).parent().and_then(Path::parent);
        let modules = modules.map(|prefix| prefix.join("lib/apache2/modules")).unwrap_or_default();
        let own = std::env::current_exe().context("cannot find out where quartier is")?;
        let own = own.to_str().context("quartier lies below a folder whose name is no text")?;
        Ok(Cooked {
            command: [own, "serve", "together", "{dir}/parts.json"].map(str::to_owned).to_vec(),
            configs: vec![
                Config::Text(web_file(self), text.to_owned()),
                Config::Text("php.conf", include_str!("recipes/php.conf").to_owned()),
                Config::Text("parts.json", serde_json::to_string(&parts)?),
            ],
            words: words(self, port, has_copies, &modules.display().to_string()),
        })
    }

    /// The group whose processes open logs anew by themselves: with nginx all do, and only root has them become somebody else.
    pub fn opens_logs(self) -> Option<&'static str> {
        (self == Self::NginxPhp && rustix::process::geteuid().is_root()).then_some(USER)
    }

    /// The web server, what stops and reloads it, and its configuration.
    fn web(self) -> Option<(&'static str, &'static str, &'static str, &'static str)> {
        match self {
            Self::ApachePhp | Self::ApachePreforkPhp => {
                Some(("apache2", "WINCH", "USR1", include_str!("recipes/apache.conf")))
            }
            Self::NginxPhp => Some(("nginx", "QUIT", "HUP", include_str!("recipes/nginx.conf"))),
            Self::Memcached => None,
        }
    }
}

fn web_file(name: Name) -> &'static str {
    if name == Name::NginxPhp { "nginx.conf" } else { "apache2.conf" }
}

fn words(name: Name, port: u16, has_copies: bool, modules: &str) -> Vec<(&'static str, String)> {
    let (mpm, threads_each) =
        if name == Name::ApachePreforkPhp { ("prefork", 1) } else { ("event", THREADS_PER_CPU) };
    // Only root can become somebody else.
    let is_root = rustix::process::geteuid().is_root();
    let line = |text: String| if is_root { text } else { String::new() };
    vec![
        ("port", port.to_string()),
        ("modules", modules.to_owned()),
        ("mpm", mpm.to_owned()),
        ("threads_each", threads_each.to_string()),
        ("php_links", if has_copies { PHP_LINKS } else { "" }.to_owned()),
        ("user_nginx", line(format!("user {USER};"))),
        ("user_apache", line(format!("User {USER}\nGroup {USER}"))),
        (
            "user_php",
            line(format!(
                "user = {USER}\ngroup = {USER}\nlisten.owner = {USER}\nlisten.group = {USER}"
            )),
        ),
    ]
}

/// A folder whose name can stand in three kinds of files.
fn check(root: &Path) -> anyhow::Result<()> {
    let full = root.canonicalize().with_context(|| {
        format!("--root {}: name the folder that is to be served", root.display())
    })?;
    let text = full.to_str().unwrap_or("");
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+@,=".contains(c);
    if !full.is_dir() || !text.chars().all(is_plain) || text.is_empty() {
        bail!(
            "--root {}: it must be a folder, and its name of letters, digits and ./_-+@,= only",
            root.display()
        );
    }
    Ok(())
}

/// Where programs are, and where Debian has servers, which a user's PATH leaves out.
fn search() -> OsString {
    let mut search = std::env::var_os("PATH").unwrap_or_default();
    search.push(":/usr/sbin:/usr/local/sbin");
    search
}

fn find(program: &str) -> anyhow::Result<String> {
    let found = Program::find(OsStr::new(program), Some(&search()));
    let found = found.with_context(|| format!("this recipe needs {program}: install it"))?;
    let path = found.path.to_str().context("a folder on the PATH has a name that is no text")?;
    Ok(path.to_owned())
}

/// Debian has the version in the name: the newest of the first folder that has one.
fn find_php() -> anyhow::Result<String> {
    let newest = |folder: PathBuf| {
        let paths = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
        let named = |path: &PathBuf| fpm_version(path.file_name().and_then(OsStr::to_str)?);
        paths.filter_map(|path| Some((named(&path)?, path))).max()
    };
    let found = std::env::split_paths(&search()).find_map(newest);
    let (_, found) =
        found.context("this recipe needs PHP-FPM: install it (apt-get install php-fpm)")?;
    Ok(found.to_str().context("a folder on the PATH has a name that is no text")?.to_owned())
}

/// By a program's name; `None`: another program's.
fn fpm_version(name: &str) -> Option<Vec<u32>> {
    let version = name.strip_prefix("php-fpm")?;
    let parts = version.split('.').filter(|_| !version.is_empty());
    parts.map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_php_is_that_with_the_greatest_version_and_not_the_last_name() {
        assert!(fpm_version("php-fpm8.10") > fpm_version("php-fpm8.2"));
        assert!(fpm_version("php-fpm8.2") > fpm_version("php-fpm"));
        for other in ["php-fpm8.2-helper", "php8.2", "php-fpm8.", "php-fpm.8"] {
            assert_eq!(fpm_version(other), None, "{other}");
        }
    }
}
