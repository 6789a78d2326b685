//! The protocol between the host and the agent in the guest, over one virtio-serial port.
//!
//! A frame is one byte of kind, four bytes of length (little endian) and that many bytes. Standard
//! input has credit, so that a command that does not read cannot block the signals behind its
//! input; the other direction needs none, because the host always reads.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Input the host may send before the guest grants more.
pub const INPUT_CREDIT_BYTES: u32 = 256 << 10;
/// The most data in one frame of input or output.
pub const DATA_BYTES_MAX: usize = 32 << 10;
/// The most bytes in any frame: an environment and arguments of Linux's largest size, and change.
pub const FRAME_BYTES_MAX: usize = 16 << 20;

/// What one side tells the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Guest: the agent runs; here is the kernel's release.
    Hello(String),
    /// Host: what to run.
    Start(Box<Start>),
    /// Guest: the server runs. Its load starts once it listens.
    Serving,
    /// Guest: the command runs; of a server, its load.
    Started,
    /// Host: standard input.
    Input(Vec<u8>),
    /// Host: standard input has ended.
    InputEnd,
    /// Guest: so many more bytes of input may be sent.
    Credit(u32),
    /// Host: a signal for the command.
    Signal(i32),
    /// Host: the terminal's rows and columns.
    WindowSize(u16, u16),
    /// Guest: standard output.
    Output(Vec<u8>),
    /// Guest: standard error.
    ErrorOutput(Vec<u8>),
    /// Guest: still alive.
    Heartbeat,
    /// Guest: where a process that was counted has what, as the kernel lists it (`/proc/PID/maps`).
    Space(u32, Vec<u8>),
    /// Guest: a part of what the kernel calls its own (`/proc/kallsyms`).
    KernelNames(Vec<u8>),
    /// Guest: the command ended. Nothing follows.
    Exit(Exit),
    /// Guest: the agent cannot go on; why. Nothing follows.
    Failed(String),
    /// Guest: what was asked for cannot be; why, in a sentence. Nothing follows.
    Refused(String),
}

/// How the command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It returned this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// The status a shell would give: 128 + n for signal n.
    #[must_use]
    pub fn shell_status(self) -> u8 {
        match self {
            Self::Status(status) => status as u8,
            Self::Signal(signal) => 128u8.wrapping_add(signal as u8),
        }
    }
}

/// What to run in the guest, and as whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Start {
    /// Program (an absolute path) and arguments.
    pub command: Vec<Vec<u8>>,
    /// What the program sees as its own name, where that differs from the path.
    pub name: Vec<u8>,
    /// The environment.
    pub environment: Vec<(Vec<u8>, Vec<u8>)>,
    /// The working directory.
    pub directory: Vec<u8>,
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary group ids.
    pub groups: Vec<u32>,
    /// The file mode creation mask.
    pub umask: u32,
    /// Soft and hard limit by resource number; `None` is unlimited.
    pub limits: Vec<(u32, Option<u64>, Option<u64>)>,
    /// The terminal's rows and columns, if the command gets a terminal.
    pub terminal: Option<(u16, u16)>,
    /// Whether standard error is that terminal too.
    pub terminal_stderr: bool,
    /// Tag and path of each directory shared for writing.
    pub writable: Vec<(String, Vec<u8>)>,
    /// Directories of the shared root to show elsewhere too: what, where.
    pub binds: Vec<(Vec<u8>, Vec<u8>)>,
    /// The host's name.
    pub hostname: Vec<u8>,
    /// What runs beside the command, as root, until it ends: a program and its arguments, or nothing.
    pub beside: Vec<Vec<u8>>,
    /// How many times as long the kernel's balancing and `khugepaged` wait; 0 or 1: as they do.
    pub slow_clocks: u32,
    /// How many times slower the guest's clock is than the host's.
    pub slower: u32,
    /// But while what is counted runs it passes as that does.
    pub follows_work: bool,
    /// What loads the command, if that is a server.
    pub load: Option<Load>,
    /// Whether to tell the instrument where the command, or its load, begins and ends.
    pub is_counted: bool,
    /// Whether to tell the host where processes have what, so that addresses can be named.
    pub tells_spaces: bool,
    /// CPUs that it has then, as the kernel lists them; all, if empty.
    pub cpus: String,
    /// Whether the same is to happen each time: the guest has nothing of the host but what was in it when
    /// it booted, and the command no input.
    pub is_repeatable: bool,
    /// How many of the host's files the guest may know at once.
    pub files_max: u64,
    /// What the guest's random numbers begin with anew: it may be as another one was when that had booted. Nothing, if they are to
    /// be the same each time.
    pub seed: Vec<u8>,
    /// The host's time, in nanoseconds since 1970; 0 leaves the guest its own.
    pub time_ns: u64,
}

/// So often it is looked where the guest's clock passes as its work does.
const LOOK_AT_WORK: Duration = Duration::from_millis(1);

impl Start {
    /// What is to be looked at so often by the host's clock, by the guest's: work there comes at the pace of one or of the other.
    #[must_use]
    pub fn look(&self, by_host: Duration) -> Duration {
        if self.follows_work { LOOK_AT_WORK } else { by_host / self.slower }
    }
}

/// What uses a server for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// A command line for a shell.
    pub line: Vec<u8>,
    /// A command line that succeeds once the server can be loaded; `None`: when it listens.
    pub ready: Option<Vec<u8>>,
    /// How long the server may take until then.
    pub ready_limit_s: u64,
}

const HELLO: u8 = 1;
const START: u8 = 2;
const STARTED: u8 = 3;
const INPUT: u8 = 4;
const INPUT_END: u8 = 5;
const CREDIT: u8 = 6;
const SIGNAL: u8 = 7;
const WINDOW_SIZE: u8 = 8;
const OUTPUT: u8 = 9;
const ERROR_OUTPUT: u8 = 10;
const HEARTBEAT: u8 = 11;
const EXIT: u8 = 12;
const FAILED: u8 = 13;
const SERVING: u8 = 14;
const REFUSED: u8 = 15;
const SPACE: u8 = 16;
const KERNEL_NAMES: u8 = 17;
const LAST: u8 = KERNEL_NAMES;

impl Frame {
    fn encode(&self) -> io::Result<(u8, Vec<u8>)> {
        let serialised = |kind, bytes: Result<Vec<u8>, postcard::Error>| {
            bytes.map(|bytes| (kind, bytes)).map_err(io::Error::other)
        };
        match self {
            Self::Hello(release) => Ok((HELLO, release.as_bytes().to_vec())),
            Self::Start(start) => serialised(START, postcard::to_stdvec(start)),
            Self::Serving => Ok((SERVING, Vec::new())),
            Self::Started => Ok((STARTED, Vec::new())),
            Self::Input(data) => Ok((INPUT, data.clone())),
            Self::InputEnd => Ok((INPUT_END, Vec::new())),
            Self::Credit(bytes) => Ok((CREDIT, bytes.to_le_bytes().to_vec())),
            Self::Signal(signal) => Ok((SIGNAL, signal.to_le_bytes().to_vec())),
            Self::WindowSize(rows, columns) => {
                Ok((WINDOW_SIZE, [rows.to_le_bytes(), columns.to_le_bytes()].concat()))
            }
            Self::Output(data) => Ok((OUTPUT, data.clone())),
            Self::ErrorOutput(data) => Ok((ERROR_OUTPUT, data.clone())),
            Self::Heartbeat => Ok((HEARTBEAT, Vec::new())),
            Self::Space(process, maps) => Ok((SPACE, [&process.to_le_bytes()[..], maps].concat())),
            Self::KernelNames(part) => Ok((KERNEL_NAMES, part.clone())),
            Self::Exit(exit) => serialised(EXIT, postcard::to_stdvec(exit)),
            Self::Failed(why) => Ok((FAILED, why.as_bytes().to_vec())),
            Self::Refused(why) => Ok((REFUSED, why.as_bytes().to_vec())),
        }
    }

    fn decode(kind: u8, payload: Vec<u8>) -> io::Result<Self> {
        let bad =
            || io::Error::new(io::ErrorKind::InvalidData, format!("bad frame of kind {kind}"));
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(match kind {
            HELLO => Self::Hello(text(payload)),
            START => Self::Start(postcard::from_bytes(&payload).map_err(|_| bad())?),
            SERVING if payload.is_empty() => Self::Serving,
            STARTED if payload.is_empty() => Self::Started,
            INPUT => Self::Input(payload),
            INPUT_END if payload.is_empty() => Self::InputEnd,
            CREDIT => Self::Credit(u32::from_le_bytes(payload.try_into().map_err(|_| bad())?)),
            SIGNAL => Self::Signal(i32::from_le_bytes(payload.try_into().map_err(|_| bad())?)),
            WINDOW_SIZE => {
                let [a, b, c, d] = <[u8; 4]>::try_from(payload).map_err(|_| bad())?;
                Self::WindowSize(u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]))
            }
            OUTPUT => Self::Output(payload),
            ERROR_OUTPUT => Self::ErrorOutput(payload),
            HEARTBEAT if payload.is_empty() => Self::Heartbeat,
            SPACE => {
                let (process, maps) = payload.split_first_chunk().ok_or_else(bad)?;
                Self::Space(u32::from_le_bytes(*process), maps.to_vec())
            }
            KERNEL_NAMES => Self::KernelNames(payload),
            EXIT => Self::Exit(postcard::from_bytes(&payload).map_err(|_| bad())?),
            FAILED => Self::Failed(text(payload)),
            REFUSED => Self::Refused(text(payload)),
            _ => return Err(bad()),
        })
    }

    /// Writes the frame, in one piece.
    ///
    /// # Errors
    /// When the writer fails, or the frame is larger than [`FRAME_BYTES_MAX`].
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let (kind, payload) = self.encode()?;
        if payload.len() > FRAME_BYTES_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "arguments and environment are larger than 16 MiB",
            ));
        }
        let mut bytes = Vec::with_capacity(payload.len() + 5);
        bytes.push(kind);
        bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&payload);
        to.write_all(&bytes)?;
        to.flush()
    }

    /// Reads a frame; `None` where the stream ends between frames.
    ///
    /// # Errors
    /// When the reader fails, the stream ends inside a frame, or what is read is no frame.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; 5];
        let mut filled = 0;
        while filled < header.len() {
            match from.read(&mut header[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        let [kind, length @ ..] = header;
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX || !(HELLO..=LAST).contains(&kind) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "not a frame"));
        }
        // Grown as data comes: a garbled length must not reserve memory that nobody sends.
        let mut payload = Vec::new();
        if from.take(length as u64).read_to_end(&mut payload)? < length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Self::decode(kind, payload).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn data() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(any::<u8>(), 0..200)
    }

    fn start() -> impl Strategy<Value = Start> {
        (
            prop::collection::vec(data(), 0..4),
            data(),
            any::<[u32; 4]>(),
            any::<Option<(u16, u16)>>(),
            prop::option::of((data(), prop::option::of(data()), any::<u64>())),
        )
            .prop_map(|(command, directory, numbers, terminal, load)| Start {
                load: load.map(|(line, ready, ready_limit_s)| Load { line, ready, ready_limit_s }),
                environment: command.iter().cloned().zip(command.iter().cloned()).collect(),
                command,
                directory,
                uid: numbers[0],
                gid: numbers[1],
                groups: numbers.to_vec(),
                limits: vec![(numbers[2], Some(u64::MAX), None)],
                terminal,
                ..Start::default()
            })
    }

    fn frame() -> impl Strategy<Value = Frame> {
        prop_oneof![
            ".*".prop_map(Frame::Hello),
            start().prop_map(|start| Frame::Start(Box::new(start))),
            Just(Frame::Serving),
            Just(Frame::Started),
            data().prop_map(Frame::Input),
            Just(Frame::InputEnd),
            (any::<u32>(), data()).prop_map(|(process, maps)| Frame::Space(process, maps)),
            data().prop_map(Frame::KernelNames),
            any::<u32>().prop_map(Frame::Credit),
            any::<i32>().prop_map(Frame::Signal),
            any::<(u16, u16)>().prop_map(|(rows, columns)| Frame::WindowSize(rows, columns)),
            data().prop_map(Frame::Output),
            data().prop_map(Frame::ErrorOutput),
            Just(Frame::Heartbeat),
            any::<i32>().prop_map(|status| Frame::Exit(Exit::Status(status))),
            any::<i32>().prop_map(|signal| Frame::Exit(Exit::Signal(signal))),
            ".*".prop_map(Frame::Failed),
            ".*".prop_map(Frame::Refused),
        ]
    }

    proptest! {
        #[test]
        fn frames_arrive_in_order_and_whole(frames in prop::collection::vec(frame(), 0..6)) {
            let mut bytes = Vec::new();
            for frame in &frames {
                frame.write(&mut bytes).unwrap();
            }
            let mut stream = bytes.as_slice();
            for frame in frames {
                prop_assert_eq!(Frame::read(&mut stream).unwrap(), Some(frame));
            }
            prop_assert_eq!(Frame::read(&mut stream).unwrap(), None);
        }

        #[test]
        fn a_cut_frame_is_an_error(frame in frame(), cut in any::<prop::sample::Index>()) {
            let mut bytes = Vec::new();
            frame.write(&mut bytes).unwrap();
            let length = 1 + cut.index(bytes.len() - 1);
            prop_assert!(Frame::read(&mut &bytes[..length]).is_err());
        }

        #[test]
        fn garbage_never_panics(bytes in data()) {
            let mut stream = bytes.as_slice();
            while let Ok(Some(_)) = Frame::read(&mut stream) {}
        }
    }

    #[test]
    fn a_huge_length_reserves_nothing() {
        let bytes = [OUTPUT, 0, 0, 255, 0];
        assert!(Frame::read(&mut bytes.as_slice()).is_err());
        let bytes = [OUTPUT, 255, 255, 255, 255];
        assert!(Frame::read(&mut bytes.as_slice()).is_err());
    }

    #[test]
    fn exit_statuses_are_those_of_a_shell() {
        assert_eq!(Exit::Status(3).shell_status(), 3);
        assert_eq!(Exit::Signal(15).shell_status(), 143);
    }
}
