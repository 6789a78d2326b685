//! hwloc, where it is installed: made-up topologies and their objects.
//!
//! The only `unsafe` of this crate. The library is opened at run time, so that the program is built and
//! runs without it. What is declared is what version 2 of its interface promises not to change.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::fmt;
use std::ptr::NonNull;
use std::rc::Rc;

/// The name that the library has had since 2.0.
const LIBRARY: &CStr = c"libhwloc.so.15";

/// The first number of its interface that is understood.
const API_MAJOR: c_uint = 2;

/// `HWLOC_OBJ_PU`.
const PU: c_int = 3;

/// The beginning of `struct hwloc_obj`, as far as it is read here.
#[repr(C)]
struct RawObject {
    kind: c_int,
    subtype: *const c_char,
    os_index: c_uint,
    name: *const c_char,
    total_memory: u64,
    attributes: *const c_void,
    depth: c_int,
    logical_index: c_uint,
    next_cousin: *const RawObject,
    prev_cousin: *const RawObject,
    parent: *const RawObject,
    sibling_rank: c_uint,
    next_sibling: *const RawObject,
    prev_sibling: *const RawObject,
    arity: c_uint,
    children: *const *const RawObject,
    first_child: *const RawObject,
}

type RawTopology = *mut c_void;
type GetApiVersion = unsafe extern "C" fn() -> c_uint;
type Init = unsafe extern "C" fn(*mut RawTopology) -> c_int;
type SetSynthetic = unsafe extern "C" fn(RawTopology, *const c_char) -> c_int;
type Load = unsafe extern "C" fn(RawTopology) -> c_int;
type Destroy = unsafe extern "C" fn(RawTopology);
type GetObject = unsafe extern "C" fn(RawTopology, c_int, c_uint) -> *const RawObject;

/// Why there is no hwloc to compare with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Absent {
    /// It is not installed.
    Library,
    /// It lacks a function.
    Function(&'static CStr),
    /// It is of another version.
    Version(u32),
    /// It refuses a topology.
    Topology(String),
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let remedy = "install version 2: apt-get install libhwloc15";
        match self {
            Self::Library => write!(f, "hwloc is not installed; {remedy}"),
            Self::Function(name) => write!(f, "hwloc lacks {}; {remedy}", name.to_string_lossy()),
            Self::Version(version) => {
                write!(f, "hwloc has interface version {version:#x}; {remedy}")
            }
            Self::Topology(spec) => write!(f, "hwloc refuses the topology `{spec}`"),
        }
    }
}

impl std::error::Error for Absent {}

/// The library's functions.
#[derive(Clone, Copy, Debug)]
pub struct Hwloc {
    /// Its version, as `0x20800` for 2.8.
    pub api_version: u32,
    init: Init,
    set_synthetic: SetSynthetic,
    load: Load,
    destroy: Destroy,
    object: GetObject,
}

/// The address of a function, as a pointer of that type.
macro_rules! function {
    ($library:expr, $name:expr, $kind:ty) => {{
        let address = symbol($library, $name).ok_or(Absent::Function($name))?;
        // SAFETY: hwloc's header declares this name with this type in all of version 2, and the
        // library is never closed.
        unsafe { std::mem::transmute::<*mut c_void, $kind>(address.as_ptr()) }
    }};
}

fn symbol(library: NonNull<c_void>, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: the handle is of a library that is open, and the name ends with a zero.
    NonNull::new(unsafe { libc::dlsym(library.as_ptr(), name.as_ptr()) })
}

impl Hwloc {
    /// Opens the library, for as long as this process lives.
    ///
    /// # Errors
    /// When it is not installed, or of a version that this program does not know.
    pub fn open() -> Result<Self, Absent> {
        // SAFETY: the name ends with a zero; loading runs the library's initialisers, which hwloc
        // permits at any time and in any thread.
        let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        let library = NonNull::new(library).ok_or(Absent::Library)?;
        let get_api_version = function!(library, c"hwloc_get_api_version", GetApiVersion);
        // SAFETY: it takes nothing and reads a constant.
        let api_version = unsafe { get_api_version() };
        if api_version >> 16 != API_MAJOR {
            return Err(Absent::Version(api_version));
        }
        Ok(Self {
            api_version,
            init: function!(library, c"hwloc_topology_init", Init),
            set_synthetic: function!(library, c"hwloc_topology_set_synthetic", SetSynthetic),
            load: function!(library, c"hwloc_topology_load", Load),
            destroy: function!(library, c"hwloc_topology_destroy", Destroy),
            object: function!(library, c"hwloc_get_obj_by_depth", GetObject),
        })
    }

    /// A made-up topology, as hwloc's tools take it with `--input`.
    ///
    /// # Errors
    /// When hwloc refuses it.
    pub fn topology(self, spec: &str) -> Result<Topology, Absent> {
        let refused = || Absent::Topology(spec.to_owned());
        let text = CString::new(spec).map_err(|_| refused())?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: it writes one pointer, and there is room for one.
        if unsafe { (self.init)(&mut raw) } != 0 {
            return Err(refused());
        }
        let topology = Rc::new(Loaded { raw, hwloc: self });
        // SAFETY: the topology was made and is not loaded yet, and the text ends with a zero.
        let is_set = unsafe { (self.set_synthetic)(raw, text.as_ptr()) } == 0;
        // SAFETY: the topology was made and is loaded once.
        if !is_set || unsafe { (self.load)(raw) } != 0 {
            return Err(refused());
        }
        // SAFETY: the topology is loaded. Depth 0 is its root.
        let root = unsafe { (self.object)(raw, 0, 0).as_ref() }.ok_or_else(refused)?;
        let mut pus = Vec::new();
        collect_pus(Object(root), &mut pus);
        Ok(Topology { pus, _loaded: topology })
    }
}

fn collect_pus(object: Object<'_>, into: &mut Vec<NonNull<RawObject>>) {
    if object.pu().is_some_and(|pu| pu == into.len()) {
        into.push(NonNull::from(object.0));
    }
    object.children().for_each(|child| collect_pus(child, into));
}

struct Loaded {
    raw: RawTopology,
    hwloc: Hwloc,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        // SAFETY: it was made by hwloc, and its last user lets go of it.
        unsafe { (self.hwloc.destroy)(self.raw) };
    }
}

/// A loaded topology. Its objects stay where they are and what they are.
pub struct Topology {
    /// By logical index.
    pus: Vec<NonNull<RawObject>>,
    _loaded: Rc<Loaded>,
}

impl Topology {
    /// The PU with this logical index.
    pub fn pu(&self, index: usize) -> Option<Object<'_>> {
        let pu = self.pus.get(index)?;
        // SAFETY: hwloc changes a loaded topology only when it is asked to, and nobody asks; the objects
        // live as long as the topology, which `self` keeps.
        Some(Object(unsafe { pu.as_ref() }))
    }
}

/// An object of a topology.
#[derive(Clone, Copy)]
pub struct Object<'a>(&'a RawObject);

impl PartialEq for Object<'_> {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl<'a> Object<'a> {
    /// Its logical index, if it is a PU.
    pub fn pu(self) -> Option<usize> {
        (self.0.kind == PU).then_some(self.0.logical_index as usize)
    }

    /// The object above; `None` for the root.
    pub fn parent(self) -> Option<Self> {
        Self::at(self.0.parent)
    }

    /// The objects below, without memory.
    pub fn children(self) -> impl Iterator<Item = Self> {
        std::iter::successors(Self::at(self.0.first_child), |child| Self::at(child.0.next_sibling))
    }

    fn at(pointer: *const RawObject) -> Option<Self> {
        // SAFETY: the pointer is one of an object's own, so null or another object of its topology,
        // which lives as long.
        unsafe { pointer.as_ref::<'a>() }.map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where hwloc's own header has them, on 64-bit machines.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn fields_are_where_hwloc_has_them() {
        use std::mem::offset_of;
        assert_eq!(offset_of!(RawObject, os_index), 16);
        assert_eq!(offset_of!(RawObject, logical_index), 52);
        assert_eq!(offset_of!(RawObject, parent), 72);
        assert_eq!(offset_of!(RawObject, next_sibling), 88);
        assert_eq!(offset_of!(RawObject, first_child), 120);
    }

    #[test]
    fn a_topology_has_its_pus_in_order_and_a_wrong_one_is_refused() {
        let Ok(hwloc) = Hwloc::open() else { return };
        let topology = hwloc.topology("group:4 numa:4 pu:4").unwrap();
        assert_eq!(topology.pus.len(), 64);
        assert_eq!(topology.pu(17).unwrap().pu(), Some(17));
        let mut at = topology.pu(17).unwrap();
        let mut height = 0;
        while let Some(parent) = at.parent() {
            (at, height) = (parent, height + 1);
        }
        assert_eq!(height, 3);
        assert!(hwloc.topology("nonsense").is_err());
    }
}
