//! What the loop decides, told to the kernel; and what the kernel did, counted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::os::fd::AsFd;

use quartier_decide::steer::places;
use quartier_observe::Listening;
use quartier_steer::{Chosen, Error, Group, SLOTS, Tables};

use super::places::Places;
use super::sockets::Owned;

/// Sockets of one address that can be chosen from: servers with a socket for each thread have many.
const SOCKETS_MAX: u32 = 1024;

/// Connections that were given to copies: by the domain that received them, and by copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// New ones.
    pub new: Vec<Vec<u64>>,
    /// Ones that had waited at another copy, by the copy that has them now.
    pub moved: Vec<u64>,
    /// Left to the kernel's hashing.
    pub missed: u64,
}

/// Chooses in the kernel.
#[derive(Debug)]
pub struct Chooser {
    tables: Tables,
    domain_of_cpu: Vec<Option<usize>>,
    nr_domains: usize,
    nr_copies: usize,
    groups: BTreeMap<SocketAddr, Members>,
    given: Given,
}

/// The sockets of one address.
#[derive(Debug)]
struct Members {
    group: Group,
    /// By inode.
    sockets: BTreeMap<u64, Member>,
    rows: Vec<Option<[u32; SLOTS]>>,
    missed: u64,
}

#[derive(Debug)]
struct Member {
    number: u32,
    owned: Owned,
    counted: Vec<Chosen>,
}

impl Chooser {
    /// Asks the kernel whether it may.
    pub fn new(places: &Places) -> Result<Self, Error> {
        let nr_domains = places.domains.len();
        let row = |cpu| places.domain_of(cpu).map(|domain| domain as u32);
        let tables = Tables::new(nr_domains as u32, row)?;
        // Found out now, not when the first copy listens.
        Group::new(&tables, 1)?;
        let last = places.domains.iter().flat_map(|domain| domain.cpus.iter()).max().unwrap_or(0);
        let nr_copies = places.homes.len();
        let new = vec![vec![0; nr_copies]; nr_domains];
        Ok(Self {
            tables,
            domain_of_cpu: (0..=last).map(|cpu| places.domain_of(cpu)).collect(),
            nr_domains,
            nr_copies,
            groups: BTreeMap::new(),
            given: Given { new, moved: vec![0; nr_copies], missed: 0 },
        })
    }

    /// Takes in sockets that are new, and lets go of those that are gone. Gives what could not be done.
    pub fn follow(&mut self, sockets: &[Owned]) -> Vec<String> {
        let mut complaints = Vec::new();
        let now: BTreeSet<u64> = sockets.iter().map(|owned| owned.listening.inode).collect();
        for members in self.groups.values_mut() {
            members.count(&self.domain_of_cpu, &mut self.given);
            members.sockets.retain(|inode, member| {
                let stays = now.contains(inode);
                if !stays {
                    members.group.remove(member.number);
                }
                stays
            });
        }
        for owned in sockets {
            let members = match self.groups.entry(owned.listening.address) {
                std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
                std::collections::btree_map::Entry::Vacant(entry) => {
                    match Group::new(&self.tables, SOCKETS_MAX) {
                        Ok(group) => entry.insert(Members::new(group, self.nr_domains)),
                        Err(error) => {
                            complaints.push(error.to_string());
                            continue;
                        }
                    }
                }
            };
            if let Err(complaint) = members.take_in(owned) {
                complaints.push(complaint);
            }
        }
        complaints
    }

    /// Connections that a copy was given since the last time, by its sockets.
    pub fn given(&self) -> &Given {
        &self.given
    }

    /// Writes what was decided: for each domain, the part of each copy.
    pub fn write(&mut self, shares: &[Vec<f64>]) -> std::io::Result<()> {
        let nr_copies = self.nr_copies;
        self.groups.values_mut().try_for_each(|members| members.write(shares, nr_copies))
    }

    /// A socket that was closed and listens again is to be chosen again.
    pub fn insert_again(&self, socket: &Owned) -> std::io::Result<()> {
        let members = self.groups.get(&socket.listening.address);
        let member = members.and_then(|it| Some((it, it.sockets.get(&socket.listening.inode)?)));
        let Some((members, member)) = member else { return Ok(()) };
        let listener = socket.listener().map_err(std::io::Error::other)?;
        members.group.insert(member.number, listener.as_fd())
    }
}

impl Members {
    fn new(group: Group, nr_domains: usize) -> Self {
        Self { group, sockets: BTreeMap::new(), rows: vec![None; nr_domains], missed: 0 }
    }

    fn take_in(&mut self, owned: &Owned) -> Result<(), String> {
        let Listening { inode, address, .. } = owned.listening;
        if let Some(member) = self.sockets.get_mut(&inode) {
            member.owned = *owned;
            return Ok(());
        }
        let taken: BTreeSet<u32> = self.sockets.values().map(|member| member.number).collect();
        let Some(number) = (0..self.group.nr_sockets_max()).find(|it| !taken.contains(it)) else {
            return Err(format!(
                "more than {SOCKETS_MAX} sockets listen on {address}: those beyond are left to the kernel's hashing"
            ));
        };
        let listener = owned.listener().map_err(|error| error.to_string())?;
        self.group.insert(number, listener.as_fd()).map_err(|error| {
            format!(
                "copy {} listens on {address} without SO_REUSEPORT or no more ({error}): its connections are not \
                 steered; have the server set it, or use a build that binds through the C library",
                owned.copy
            )
        })?;
        // What was counted under this number was another's.
        let counted = self.group.chosen(number).unwrap_or_default();
        self.sockets.insert(inode, Member { number, owned: *owned, counted });
        Ok(())
    }

    fn count(&mut self, domain_of_cpu: &[Option<usize>], given: &mut Given) {
        for member in self.sockets.values_mut() {
            let Ok(now) = self.group.chosen(member.number) else { continue };
            for (cpu, (now, before)) in now.iter().zip(&member.counted).enumerate() {
                let domain = domain_of_cpu.get(cpu).copied().flatten();
                if let Some(domain) = domain {
                    given.new[domain][member.owned.copy] += now.new.saturating_sub(before.new);
                }
                given.moved[member.owned.copy] += now.moved.saturating_sub(before.moved);
            }
            member.counted = now;
        }
        let missed = self.group.missed().unwrap_or_default();
        let missed = missed.iter().map(|cpu| cpu.new + cpu.moved).sum::<u64>();
        given.missed += missed.saturating_sub(self.missed);
        self.missed = missed;
    }

    /// A copy without a socket here gets nothing here.
    fn write(&mut self, shares: &[Vec<f64>], nr_copies: usize) -> std::io::Result<()> {
        let mut sockets = vec![Vec::new(); nr_copies];
        for member in self.sockets.values() {
            sockets[member.owned.copy].push(member.number);
        }
        let serves = |copy: usize, share: f64| if sockets[copy].is_empty() { 0.0 } else { share };
        for (domain, shares) in shares.iter().enumerate() {
            let here = shares.iter().enumerate();
            let here: Vec<f64> = here.map(|(copy, share)| serves(copy, *share)).collect();
            let copies = places(&here, SLOTS);
            // No socket has this number: nobody can serve, so the kernel's hashing may choose whom it likes.
            let mut row = [u32::MAX; SLOTS];
            let mut nth = vec![0; nr_copies];
            for (place, copy) in row.iter_mut().zip(copies) {
                *place = sockets[copy][nth[copy] % sockets[copy].len()];
                nth[copy] += 1;
            }
            if self.rows[domain] != Some(row) {
                self.group.set_row(domain as u32, &row)?;
                self.rows[domain] = Some(row);
            }
        }
        Ok(())
    }
}
