//! The two geometries that are built in.

use super::Geometry;

/// A geometry that is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// The many-core of the thesis (table 5.1), `presets/tsar.toml`.
    Tsar,
    /// A server of two to eight sockets, `presets/server.toml`.
    Server,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Tsar, Self::Server];

    /// What it is called on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tsar => "tsar",
            Self::Server => "server",
        }
    }

    /// The file, with the source of every value.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Tsar => include_str!("../../presets/tsar.toml"),
            Self::Server => include_str!("../../presets/server.toml"),
        }
    }

    /// The geometry.
    ///
    /// # Panics
    /// Never: a test reads both.
    #[must_use]
    pub fn geometry(self) -> Geometry {
        Geometry::parse(self.text()).expect("a test reads every preset")
    }
}
