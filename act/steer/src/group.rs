//! One address and port: the sockets that listen there, and the program that chooses among them.

use std::os::fd::{AsRawFd, BorrowedFd};

use crate::bpf::{Error, Kind, Map, Program, nr_possible_cpus};
use crate::program::{COUNT_BYTES, Maps, ROW_BYTES, SLOTS, assemble};

/// Which row each CPU reads; shared by all groups.
#[derive(Debug)]
pub struct Tables {
    row_of_cpu: Map,
    nr_rows: u32,
}

impl Tables {
    /// `row_of_cpu` gives a row for a CPU's number; CPUs without one are left to the kernel's hashing.
    ///
    /// # Errors
    /// When the kernel lets us make no maps.
    pub fn new(nr_rows: u32, row_of_cpu: impl Fn(u32) -> Option<u32>) -> Result<Self, Error> {
        let nr_cpus = nr_possible_cpus() as u32;
        let map = Map::create(Kind::Array, 4, nr_cpus)?;
        for cpu in 0..nr_cpus {
            // A row that is not there cannot be looked up.
            let row = row_of_cpu(cpu).filter(|row| *row < nr_rows).unwrap_or(u32::MAX);
            map.put(cpu, &row.to_ne_bytes())
                .map_err(|cause| Error::of("filling a map", cause, ""))?;
        }
        Ok(Self { row_of_cpu: map, nr_rows })
    }
}

/// Connections that were given to a socket, by the CPU that received them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chosen {
    /// New ones.
    pub new: u64,
    /// Ones that had waited at a socket that was closed.
    pub moved: u64,
}

/// The sockets of one address and port.
#[derive(Debug)]
pub struct Group {
    program: Program,
    rows: Map,
    sockets: Map,
    counts: Map,
    nr_sockets_max: u32,
}

impl Group {
    /// Loads a program of its own. Every row chooses nothing until it is written.
    ///
    /// # Errors
    /// When the kernel does not let us.
    pub fn new(tables: &Tables, nr_sockets_max: u32) -> Result<Self, Error> {
        let rows = Map::create(Kind::Array, ROW_BYTES, tables.nr_rows)?;
        let sockets = Map::create(Kind::ReuseportSockets, 8, nr_sockets_max)?;
        let counts = Map::create(Kind::PerCpuArray, COUNT_BYTES, nr_sockets_max + 1)?;
        let maps = Maps {
            row_of_cpu: tables.row_of_cpu.fd(),
            rows: rows.fd(),
            sockets: sockets.fd(),
            counts: counts.fd(),
            missed: nr_sockets_max,
        };
        let program = Program::load(&assemble(maps))?;
        Ok(Self { program, rows, sockets, counts, nr_sockets_max })
    }

    /// Makes a listening socket one of those to choose from. It leaves by itself when it is closed.
    ///
    /// # Errors
    /// When it does not listen, or not with `SO_REUSEPORT`.
    pub fn insert(&self, number: u32, socket: BorrowedFd<'_>) -> std::io::Result<()> {
        self.sockets.put(number, &(socket.as_raw_fd() as u64).to_ne_bytes())?;
        self.program.attach(socket)
    }

    /// It is chosen no more; what waits at it stays.
    pub fn remove(&self, number: u32) {
        let _ = self.sockets.remove(number);
    }

    /// What a row says from now on.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn set_row(&self, row: u32, sockets: &[u32; SLOTS]) -> std::io::Result<()> {
        let bytes: Vec<u8> = sockets.iter().flat_map(|socket| socket.to_ne_bytes()).collect();
        self.rows.put(row, &bytes)
    }

    /// What was given to a socket so far, by CPU.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn chosen(&self, number: u32) -> std::io::Result<Vec<Chosen>> {
        let bytes = self.counts.get(number)?;
        let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
        Ok(bytes
            .chunks_exact(COUNT_BYTES as usize)
            .map(|count| Chosen { new: word(&count[..8]), moved: word(&count[8..]) })
            .collect())
    }

    /// What was left to the kernel's hashing, by CPU.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn missed(&self) -> std::io::Result<Vec<Chosen>> {
        self.chosen(self.nr_sockets_max)
    }

    /// How many sockets there is room for.
    #[must_use]
    pub fn nr_sockets_max(&self) -> u32 {
        self.nr_sockets_max
    }
}
