//! The boxes of the drawn tree: what stands in each, how large it is, and where.

use std::collections::BTreeMap;

use quartier_decide::dqdt::ClusterId;

use super::super::super::names::{Kind, Names};
use super::super::super::tree::Folded;
use super::super::MARGIN;
use super::super::canvas::text_width;
use super::super::layout::Size;

/// Longer lists are cut; the whole of one shows under a pointer.
const CHARS_MAX: usize = 34;

pub const PAD: f64 = 9.0;
pub const LINE: f64 = 15.0;
pub const CPU: Size = Size { width: 24.0, height: 18.0 };
pub const CPU_GAP: f64 = 3.0;
pub const COLUMNS_GAP: f64 = 40.0;
const BROTHERS_GAP: f64 = 7.0;
const FAMILIES_GAP: f64 = 9.0;

/// A cluster, or several that are alike.
pub struct TreeBox {
    pub ids: Vec<ClusterId>,
    pub folded: Folded,
    pub level: u8,
    pub size: Size,
    /// Its top, below the heads of the columns.
    pub y: f64,
    /// Indices of the boxes in it.
    pub children: Vec<usize>,
}

impl TreeBox {
    /// Where edges meet it.
    pub fn middle(&self) -> f64 {
        self.y + self.size.height / 2.0
    }

    /// Whether it stands for several.
    pub fn is_folded(&self) -> bool {
        self.ids.len() > 1
    }
}

/// Boxes from the root on, the lowest ones below each other.
pub struct Layout<'a> {
    pub names: &'a Names<'a>,
    pub all: bool,
    pub boxes: Vec<TreeBox>,
    /// Where the next lowest box goes.
    pub bottom: f64,
}

impl Layout<'_> {
    /// Places clusters that share a box, with all below it; gives the box's index.
    pub fn place(&mut self, ids: &[ClusterId]) -> usize {
        let folded = Folded::new(self.names, ids);
        let level = self.names.tree.cluster(ids[0]).level();
        let size = self.size(ids, &folded);
        let (ids, at) = (ids.to_vec(), self.boxes.len());
        let is_open = ids.len() == 1;
        let root = ids[0];
        let new = TreeBox { ids, folded, level, size, y: self.bottom, children: Vec::new() };
        self.boxes.push(new);
        let groups = if is_open { self.names.alike_children(root, self.all) } else { Vec::new() };
        for group in &groups {
            let first = self.place(&group[..1]);
            self.boxes[at].children.push(first);
            if group.len() > 1 {
                let more = self.place(&group[1..]);
                self.boxes[at].children.push(more);
            }
        }
        let ends = [self.boxes[at].children.first(), self.boxes[at].children.last()];
        if let [Some(&first), Some(&last)] = ends {
            let middle = (self.boxes[first].middle() + self.boxes[last].middle()) / 2.0;
            self.boxes[at].y = middle - size.height / 2.0;
            self.bottom += FAMILIES_GAP;
        } else {
            self.bottom += size.height + BROTHERS_GAP;
        }
        at
    }

    fn size(&self, ids: &[ClusterId], folded: &Folded) -> Size {
        let head = text_width(&self.head(ids), 13.0);
        let lines = [self.members(ids, folded), keepers(folded)];
        let widest = lines.iter().map(|line| text_width(line, 10.5)).fold(0.0, f64::max);
        let (width, height) = if self.shows_cpus(ids) {
            let nr_cpus = f64::from(self.names.tree.cluster(ids[0]).nr_cpus());
            let cpus = nr_cpus * (CPU.width + CPU_GAP);
            ((head + 2.0 * PAD + cpus).max(text_width(&lines[1], 10.5)), CPU.height + LINE)
        } else {
            (head.max(widest), 3.0 * LINE - 3.0)
        };
        Size { width: width + 2.0 * PAD, height: height + 2.0 * PAD }
    }

    /// Whether a box has its CPUs as small boxes, not as a list.
    pub fn shows_cpus(&self, ids: &[ClusterId]) -> bool {
        let cluster = self.names.tree.cluster(ids[0]);
        ids.len() == 1 && cluster.is_leaf() && cluster.nr_cpus() > 0
    }

    /// What stands in bold.
    pub fn head(&self, ids: &[ClusterId]) -> String {
        match ids {
            [one] => match self.names.kind(*one) {
                Kind::Nodes(nodes) => shortened(&format!("nodes {nodes}")),
                _ => self.names.what(*one),
            },
            several => format!("{} more alike", several.len()),
        }
    }

    /// What stands below that.
    pub fn members(&self, ids: &[ClusterId], folded: &Folded) -> String {
        match ids {
            [one] => shortened(&self.names.members(*one)),
            _ => shortened(&folded.members),
        }
    }

    /// The left edge and the width of each level's column.
    pub fn columns(&self) -> BTreeMap<u8, (f64, f64)> {
        let mut widths: BTreeMap<u8, f64> = BTreeMap::new();
        for TreeBox { level, size, .. } in &self.boxes {
            let width = widths.entry(*level).or_default();
            *width = width.max(size.width);
        }
        let mut left = MARGIN;
        let mut columns = BTreeMap::new();
        for (level, width) in widths.into_iter().rev() {
            columns.insert(level, (left, width));
            left += width + COLUMNS_GAP;
        }
        columns
    }
}

/// Whose it is: `home node 0, updated by CPU 0`.
pub fn keepers(folded: &Folded) -> String {
    let (homes, updaters) = (shortened(&folded.homes), shortened(&folded.updaters));
    format!("home {homes}, updated by {updaters}")
}

/// The beginning of a long text.
fn shortened(text: &str) -> String {
    if text.chars().count() <= CHARS_MAX {
        return text.to_owned();
    }
    let beginning: String = text.chars().take(CHARS_MAX - 1).collect();
    beginning + "…"
}
