//! The decision tree as a drawing: a column for each level, the root at the left, leaves with their
//! CPUs at the right. In a large tree one box stands for brothers that are alike.

mod boxes;

use std::collections::{BTreeMap, BTreeSet};

use quartier_decide::dqdt::{ClusterId, Tree};

use super::super::names::{Kind, Names};
use super::super::tree::{summary, title};
use super::canvas::{Canvas, text_width};
use super::layout::{Flow, Size, flow};
use super::{HEADER_HEIGHT, MARGIN, WIDTH_MIN};
use boxes::{COLUMNS_GAP, CPU, CPU_GAP, LINE, Layout, PAD, TreeBox, keepers};

/// With more leaves than this, alike brothers are one box.
const LEAVES_IN_FULL_MAX: usize = 16;

const COLUMN_HEADER: f64 = 22.0;
/// How far the boxes show that are behind a folded one.
const STACK: f64 = 3.0;

const TERMS: [&str; 4] = [
    "level 0: a leaf of at most four CPUs; each higher level groups at most four lower clusters",
    "home: the node that distances to the cluster count from",
    "updated by: the CPU that renews its U (usage) and M (free memory);",
    "T (threads) is counted by whoever places a thread",
];

/// The drawing's text. `all`: every cluster has its box.
pub fn draw(names: &Names<'_>, all: bool) -> String {
    let nr_leaves = names.tree.clusters().iter().filter(|cluster| cluster.is_leaf()).count();
    let all = all || nr_leaves <= LEAVES_IN_FULL_MAX;
    let mut layout = Layout { names, all, boxes: Vec::new(), bottom: 0.0 };
    layout.place(&[ClusterId::ROOT]);
    let mut canvas = Canvas::new();
    canvas.text(MARGIN, MARGIN + 18.0, "title", &title(names));
    let summary = format!("decision tree: {}", summary(names));
    canvas.text(MARGIN, MARGIN + 40.0, "summary", &summary);
    let top = MARGIN + HEADER_HEIGHT;
    let (columns, updates) = (layout.columns(), updates(names));
    let drawer = Drawer { tree: names.tree, layout: &layout, columns, updates, top };
    let drawn = drawer.draw(&mut canvas);
    let title_width = text_width(&title(names), 21.0).max(text_width(&summary, 13.0));
    let terms_width = TERMS.iter().map(|line| text_width(line, 11.0)).fold(0.0, f64::max);
    let width = drawn.width.max(title_width).max(terms_width).max(WIDTH_MIN);
    let legend_top = top + drawn.height + 24.0;
    let legend = drawer.draw_legend(&mut canvas, (MARGIN, legend_top), width);
    canvas.finish(width + 2.0 * MARGIN, legend_top + legend + MARGIN)
}

struct Drawer<'a> {
    tree: &'a Tree,
    layout: &'a Layout<'a>,
    columns: BTreeMap<u8, (f64, f64)>,
    updates: BTreeMap<u32, Vec<ClusterId>>,
    top: f64,
}

impl Drawer<'_> {
    /// Draws all and says how much room that took.
    fn draw(&self, canvas: &mut Canvas) -> Size {
        for (level, (x, _)) in &self.columns {
            canvas.text(*x, self.top + 10.0, "note", &format!("level {level}"));
        }
        let boxes = &self.layout.boxes;
        boxes.iter().for_each(|parent| self.draw_edges(canvas, parent));
        boxes.iter().for_each(|each| self.draw_box(canvas, each));
        let right = self.columns.values().map(|(x, width)| x + width).fold(0.0, f64::max);
        let bottom = boxes.iter().map(|each| each.y + each.size.height).fold(0.0, f64::max);
        Size { width: right - MARGIN, height: COLUMN_HEADER + bottom }
    }

    fn x(&self, each: &TreeBox) -> (f64, f64) {
        self.columns.get(&each.level).copied().unwrap_or_default()
    }

    fn y(&self, y: f64) -> f64 {
        self.top + COLUMN_HEADER + y
    }

    /// From the right of a box to the left of each box in it, around a corner.
    fn draw_edges(&self, canvas: &mut Canvas, parent: &TreeBox) {
        let children: Vec<_> =
            parent.children.iter().map(|&child| &self.layout.boxes[child]).collect();
        let (Some(first), Some(last)) = (children.first(), children.last()) else { return };
        let (left, width) = self.x(parent);
        let bend = left + width + COLUMNS_GAP / 2.0;
        let middle = self.y(parent.middle());
        canvas.rect((left + width, middle), (COLUMNS_GAP / 2.0, 1.0), 0.0, "edge");
        let (top, bottom) = (self.y(first.middle()), self.y(last.middle()));
        canvas.rect((bend, top), (1.0, bottom - top + 1.0), 0.0, "edge");
        for child in children {
            let right = self.x(child).0;
            canvas.rect((bend, self.y(child.middle())), (right - bend, 1.0), 0.0, "edge");
        }
    }

    fn draw_box(&self, canvas: &mut Canvas, each: &TreeBox) {
        let ((x, width), y) = (self.x(each), self.y(each.y));
        let TreeBox { ids, folded, size, .. } = each;
        let class = self.class(each);
        if each.is_folded() {
            for behind in [2.0 * STACK, STACK] {
                let at = (x + behind, y + behind);
                let size = (width - 2.0 * STACK, size.height - 2.0 * STACK);
                canvas.rect(at, size, 5.0, class);
            }
        }
        let stack = if each.is_folded() { 2.0 * STACK } else { 0.0 };
        let hint = format!(
            "{}; level {}; home {}; updated by {}",
            folded.members, each.level, folded.homes, folded.updaters
        );
        let inner = (width - stack, size.height - stack);
        canvas.hinted_rect((x, y), inner, 5.0, class, &hint);
        let baseline = y + PAD + 8.0;
        let head = self.layout.head(ids);
        canvas.text(x + PAD, baseline, "name", &head);
        if self.layout.shows_cpus(ids) {
            let left = x + PAD + text_width(&head, 13.0) + PAD;
            self.draw_cpus(canvas, ids[0], (left, y + PAD - 4.0));
            canvas.text(x + PAD, baseline + LINE + 6.0, "note", &keepers(folded));
        } else {
            let members = self.layout.members(ids, folded);
            canvas.text(x + PAD, baseline + LINE, "note", &members);
            canvas.text(x + PAD, baseline + 2.0 * LINE - 1.0, "note", &keepers(folded));
        }
    }

    fn draw_cpus(&self, canvas: &mut Canvas, leaf: ClusterId, (left, y): (f64, f64)) {
        for (at, cpu) in self.tree.cluster_cpus(leaf).enumerate() {
            let cpu = self.layout.names.cpu(cpu);
            let x = left + at as f64 * (CPU.width + CPU_GAP);
            let (class, hint) = match self.updates.get(&cpu) {
                Some(clusters) => ("cpu updater", self.hint_of_updater(cpu, clusters)),
                None => ("cpu", format!("CPU {cpu}")),
            };
            canvas.hinted_rect((x, y), (CPU.width, CPU.height), 3.0, class, &hint);
            let middle = (x + CPU.width / 2.0, y + CPU.height / 2.0 + 3.3);
            canvas.text(middle.0, middle.1, "cpu-name", &cpu.to_string());
        }
    }

    /// `CPU 0 updates nodes 0-3 (level 1), node 0 (level 0)`.
    fn hint_of_updater(&self, cpu: u32, clusters: &[ClusterId]) -> String {
        let named = clusters.iter().map(|&id| {
            let level = self.tree.cluster(id).level();
            format!("{} (level {level})", self.layout.names.name(id))
        });
        format!("CPU {cpu} updates {}", named.collect::<Vec<_>>().join(", "))
    }

    fn class(&self, each: &TreeBox) -> &'static str {
        if self.tree.cluster(each.ids[0]).nr_cpus() == 0 {
            return "node odd";
        }
        match self.layout.names.kind(each.ids[0]) {
            Kind::Nodes(_) => "package",
            Kind::Node(_) => "node",
            Kind::Cache(_) => "cache",
            Kind::Part => "part",
            Kind::NoNode => "node odd",
        }
    }

    /// What the colours mean that occur, then the terms; gives the height.
    fn draw_legend(&self, canvas: &mut Canvas, (left, top): (f64, f64), width_max: f64) -> f64 {
        let occurring: BTreeSet<_> =
            self.layout.boxes.iter().map(|each| self.class(each)).collect();
        let mut entries: Vec<_> = [
            ("package", "several nodes"),
            ("node", "a node"),
            ("cache", "the CPUs of a last-level cache"),
            ("part", "a part of these"),
            ("node odd", "no CPUs, or no known node"),
        ]
        .into_iter()
        .filter(|(class, _)| occurring.contains(class))
        .collect();
        if self.layout.boxes.iter().any(|each| self.layout.shows_cpus(&each.ids)) {
            entries.extend([("cpu", "CPU"), ("cpu updater", "CPU that updates clusters")]);
        }
        let size = |text: &str| Size { width: 19.0 + text_width(text, 11.0), height: 14.0 };
        let sizes: Vec<_> = entries.iter().map(|(_, text)| size(text)).collect();
        let Flow { places, size } = flow(&sizes, 10.0, width_max);
        for ((class, text), (x, y)) in entries.into_iter().zip(places) {
            canvas.rect((left + x, top + y), (14.0, 10.0), 2.0, class);
            canvas.text(left + x + 19.0, top + y + 9.0, "note", text);
        }
        for (at, line) in (1..).zip(TERMS) {
            let baseline = top + size.height + 6.0 + 14.0 * f64::from(at);
            canvas.text(left, baseline, "note", line);
        }
        size.height + 6.0 + 14.0 * TERMS.len() as f64
    }
}

/// Which clusters each CPU updates that updates any.
fn updates(names: &Names<'_>) -> BTreeMap<u32, Vec<ClusterId>> {
    let mut updates: BTreeMap<u32, Vec<ClusterId>> = BTreeMap::new();
    for id in names.tree.cluster_ids() {
        if let Some(cpu) = names.updater(id) {
            updates.entry(cpu).or_default().push(id);
        }
    }
    updates
}
