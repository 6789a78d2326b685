//! Network interfaces: their queues, and which interrupts those have. `sys/class/net`, `proc/interrupts`.

use std::fs;
use std::io::{BufRead, BufReader};

use crate::{Error, Host, Result};

/// A network interface, loopback apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// As `ip link` calls it.
    pub name: String,
    /// How many queues it receives on.
    pub nr_receive: usize,
    /// How many queues it sends on.
    pub nr_send: usize,
    /// The interrupt of each receive queue, where known.
    pub interrupts: Vec<Option<u32>>,
}

impl Host {
    /// Interfaces that are up, or do not say whether they are.
    ///
    /// # Errors
    /// When what is there cannot be read.
    pub fn interfaces(&self) -> Result<Vec<Interface>> {
        let Ok(entries) = fs::read_dir(self.full_path("sys/class/net")) else {
            return Ok(Vec::new());
        };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| name != "lo") {
            let state = self.read(&format!("sys/class/net/{name}/operstate"))?.unwrap_or_default();
            if matches!(state.trim(), "up" | "unknown") {
                found.push(self.interface(name)?);
            }
        }
        Ok(found)
    }

    /// The text of a file below `sys` or `proc/sys` that says how packets are received; `None` where there is none, or it says nothing
    /// (`xps_cpus` of an interface with one queue).
    #[must_use]
    pub fn receiving(&self, path: &str) -> Option<String> {
        Some(self.read(path).ok()??.trim().to_owned())
    }

    fn interface(&self, name: String) -> Result<Interface> {
        let folder = self.full_path(&format!("sys/class/net/{name}/queues"));
        let count = |prefix: &str| {
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            entries.filter(|it| it.file_name().to_string_lossy().starts_with(prefix)).count()
        };
        let (nr_receive, nr_send) = (count("rx-"), count("tx-"));
        let device = fs::read_link(self.full_path(&format!("sys/class/net/{name}/device")));
        let device = device.ok().and_then(|it| it.file_name()?.to_str().map(str::to_owned));
        let mut interrupts = vec![None; nr_receive];
        for (number, queue) in self.interrupts(&name, device.as_deref())? {
            if let Some(interrupt) = interrupts.get_mut(queue) {
                *interrupt = Some(number);
            }
        }
        Ok(Interface { name, nr_receive, nr_send, interrupts })
    }

    /// Interrupts by what drivers call them, with the receive queue that each is of.
    fn interrupts(&self, interface: &str, device: Option<&str>) -> Result<Vec<(u32, usize)>> {
        let path = "proc/interrupts";
        // A line has a number for each CPU, so the file may be larger than any that is read whole.
        let Ok(file) = fs::File::open(self.full_path(path)) else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        for line in BufReader::new(file).lines() {
            let line = line.map_err(|cause| Error::Io { path: self.full_path(path), cause })?;
            let Some((number, rest)) = line.split_once(':') else { continue };
            let (Ok(number), Some(name)) = (number.trim().parse(), rest.split_whitespace().last())
            else {
                continue;
            };
            let owners = [Some(interface), device].into_iter().flatten();
            let queue = owners.filter_map(|owner| name.strip_prefix(owner)).find_map(queue_of);
            found.extend(queue.map(|queue| (number, queue)));
        }
        Ok(found)
    }
}

/// `-rx-3`, `-TxRx-3`, `-input.3`.
fn queue_of(name: &str) -> Option<usize> {
    let name = name.strip_prefix('-')?.to_ascii_lowercase();
    let number =
        ["rx-", "txrx-", "rx", "input."].iter().find_map(|kind| name.strip_prefix(kind))?;
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_and_their_interrupts_are_found() {
        let root = tempfile::tempdir().unwrap();
        let net = root.path().join("sys/class/net");
        for queue in ["eth0/queues/rx-0", "eth0/queues/rx-1", "eth0/queues/tx-0", "lo/queues/rx-0"]
        {
            fs::create_dir_all(net.join(queue)).unwrap();
        }
        fs::create_dir_all(net.join("eth1")).unwrap();
        fs::write(net.join("eth0/operstate"), "up\n").unwrap();
        fs::write(net.join("eth1/operstate"), "down\n").unwrap();
        std::os::unix::fs::symlink("../../../virtio3", net.join("eth0/device")).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        let interrupts = "           CPU0       CPU1\n  24:  0  7  PCI-MSIX-0  0-edge  virtio3-config\n  \
                          26:  1  9  PCI-MSIX-0  1-edge  virtio3-input.1\n NMI:  0 0  Non-maskable\n";
        fs::write(root.path().join("proc/interrupts"), interrupts).unwrap();
        let interface = Interface {
            name: "eth0".to_owned(),
            nr_receive: 2,
            nr_send: 1,
            interrupts: vec![None, Some(26)],
        };
        assert_eq!(Host::at(root.path(), "test").interfaces().unwrap(), [interface]);
    }

    #[test]
    fn names_of_drivers_are_read_and_others_are_not() {
        for (name, queue) in
            [("-TxRx-3", Some(3)), ("-rx-0", Some(0)), ("-input.12", Some(12)), ("-tx-0", None)]
        {
            assert_eq!(queue_of(name), queue, "{name}");
        }
    }
}
