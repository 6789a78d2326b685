//! Nodes as cards. With many nodes cards get small: CPUs lose their numbers, caches their names.

use quartier_model::{Bytes, Cpu};

use super::super::view::{CacheView, NodeView, View, count};
use super::canvas::{Canvas, text_width};
use super::layout::{Flow, Size, flow, width_for_ratio};

/// With more nodes, or more CPUs, than this, cards are small.
const NODES_LARGE_MAX: usize = 64;
const CPUS_LARGE_MAX: usize = 1024;

/// Drawings come out about this many times as wide as high.
const PAGE_RATIO: f64 = 1.6;

/// The measures of everything in a card, in pixels.
struct Measures {
    cpu: Size,
    cpu_gap: f64,
    core_pad: f64,
    cache_pad: f64,
    cache_name: f64,
    card_pad: f64,
    header: f64,
    memory: f64,
    gap: f64,
    frame_pad: f64,
    frame_header: f64,
    is_small: bool,
}

const LARGE: Measures = Measures {
    cpu: Size { width: 24.0, height: 18.0 },
    cpu_gap: 4.0,
    core_pad: 2.0,
    cache_pad: 7.0,
    cache_name: 14.0,
    card_pad: 12.0,
    header: 20.0,
    memory: 7.0,
    gap: 14.0,
    frame_pad: 14.0,
    frame_header: 28.0,
    is_small: false,
};

const SMALL: Measures = Measures {
    cpu: Size { width: 7.0, height: 7.0 },
    cpu_gap: 2.0,
    core_pad: 0.0,
    cache_pad: 3.0,
    cache_name: 0.0,
    card_pad: 5.0,
    header: 12.0,
    memory: 4.0,
    gap: 6.0,
    frame_pad: 8.0,
    frame_header: 14.0,
    is_small: true,
};

/// Boxes at places within a box of a size.
struct Placed<T> {
    parts: Vec<(f64, f64, T)>,
    size: Size,
}

type CacheLayout<'a> = Placed<Vec<&'a Cpu>>;

/// Draws all nodes, in frames where packages have several, and says how much room that took.
pub fn draw(canvas: &mut Canvas, view: &View<'_>, left: f64, top: f64) -> Size {
    let is_large =
        view.nodes.len() <= NODES_LARGE_MAX && view.machine.cpus().len() <= CPUS_LARGE_MAX;
    let measures = if is_large { &LARGE } else { &SMALL };
    let largest = view.nodes.iter().filter_map(|node| node.memory).max().unwrap_or(Bytes(0));
    let mut drawer = Drawer { measures, largest, card_min: Size::default() };
    let frames = frames(view);
    drawer.card_min = drawer.largest_card(&frames);
    let boxes: Vec<_> = frames.iter().map(|frame| drawer.lay_out_frame(frame)).collect();
    let sizes: Vec<_> = boxes.iter().map(|placed| placed.size).collect();
    let Flow { places, size } =
        flow(&sizes, measures.gap, width_for_ratio(&sizes, measures.gap, PAGE_RATIO));
    for ((frame, placed), (x, y)) in frames.iter().zip(&boxes).zip(places) {
        drawer.draw_frame(canvas, frame, placed, (left + x, top + y));
    }
    let rest = drawer.draw_homeless(canvas, view, (left, top + size.height + measures.gap));
    let below = if rest.height > 0.0 { measures.gap + rest.height } else { 0.0 };
    Size { width: size.width.max(rest.width), height: size.height + below }
}

/// Nodes that are drawn together.
struct Frame<'a, 'b> {
    /// The package all of them lie in.
    name: Option<String>,
    nodes: Vec<&'a NodeView<'b>>,
}

/// A frame for every package of several nodes; nodes of other kinds stand alone.
fn frames<'a, 'b>(view: &'a View<'b>) -> Vec<Frame<'a, 'b>> {
    let mut frames: Vec<Frame<'a, 'b>> = Vec::new();
    for node in &view.nodes {
        let name = (node.packages.len() == 1).then(|| node.package_text());
        let same = |frame: &&mut Frame<'_, '_>| name.is_some() && frame.name == name;
        match frames.iter_mut().find(same) {
            Some(frame) => frame.nodes.push(node),
            None => frames.push(Frame { name, nodes: vec![node] }),
        }
    }
    if frames.iter().all(|frame| frame.nodes.len() == 1) {
        frames.iter_mut().for_each(|frame| frame.name = None);
    }
    frames
}

struct Drawer<'a> {
    measures: &'a Measures,
    /// The memory of the node that has most.
    largest: Bytes,
    /// All cards are as large as the largest: a grid is easier to read than a wall of bricks.
    card_min: Size,
}

impl Drawer<'_> {
    fn largest_card(&self, frames: &[Frame<'_, '_>]) -> Size {
        let cards = frames.iter().flat_map(|frame| {
            let show_package = frame.name.is_none();
            frame.nodes.iter().map(move |node| self.lay_out_card(node, show_package).size)
        });
        cards.fold(Size::default(), |largest, card| Size {
            width: largest.width.max(card.width),
            height: largest.height.max(card.height),
        })
    }

    fn lay_out_frame<'b>(&self, frame: &Frame<'_, 'b>) -> Placed<Placed<CacheLayout<'b>>> {
        let show_package = frame.name.is_none();
        let cards: Vec<_> =
            frame.nodes.iter().map(|node| self.lay_out_card(node, show_package)).collect();
        let mut placed = self.place(cards, self.measures.gap, 1.2);
        if frame.name.is_some() {
            placed.size.width += 2.0 * self.measures.frame_pad;
            placed.size.height += self.measures.frame_pad + self.measures.frame_header;
        }
        placed
    }

    fn lay_out_card<'b>(&self, node: &NodeView<'b>, show_package: bool) -> Placed<CacheLayout<'b>> {
        let m = self.measures;
        let caches: Vec<_> = node.caches.iter().map(|cache| self.lay_out_cache(cache)).collect();
        let mut placed = self.place(caches, m.cpu_gap * 2.0, 1.4);
        let (left, right) = self.header(node, show_package);
        let font = if m.is_small { 8.0 } else { 12.0 };
        let header = text_width(&left, font) + text_width(&right, 11.0) + 2.0 * m.cpu_gap;
        let width = placed.size.width.max(header) + 2.0 * m.card_pad;
        let height = placed.size.height + m.header + 2.0 * m.memory + 2.0 * m.card_pad;
        placed.size.width = width.max(self.card_min.width);
        placed.size.height = height.max(self.card_min.height);
        let inner = placed.size.width - 2.0 * m.card_pad;
        if placed.parts.iter().all(|(x, _, _)| *x == 0.0) {
            placed.parts.iter_mut().for_each(|(_, _, cache)| cache.size.width = inner);
        }
        placed
    }

    fn lay_out_cache<'b>(&self, cache: &CacheView<'b>) -> CacheLayout<'b> {
        let m = self.measures;
        let cores: Vec<Vec<&Cpu>> = cache
            .cpus
            .chunk_by(|a, b| a.core.is_some() && (a.package, a.core) == (b.package, b.core))
            .map(<[&Cpu]>::to_vec)
            .collect();
        let core_size = |cpus: Vec<&'b Cpu>| {
            let nr_cpus = cpus.len() as f64;
            let width = nr_cpus * (m.cpu.width + m.core_pad) + m.core_pad;
            let size = Size { width, height: m.cpu.height + 2.0 * m.core_pad };
            Placed { parts: vec![(0.0, 0.0, cpus)], size }
        };
        let cores: Vec<_> = cores.into_iter().map(core_size).collect();
        let placed = self.place(cores, m.cpu_gap, 2.2);
        let parts = placed.parts.into_iter().map(|(x, y, core)| {
            let cpus = core.parts.into_iter().flat_map(|(_, _, cpus)| cpus).collect();
            (x, y, cpus)
        });
        let (name_width, name_height) = match cache.llc {
            Some(_) if !m.is_small => (text_width(&cache.text(), 9.0), m.cache_name),
            _ => (0.0, 0.0),
        };
        Placed {
            parts: parts.collect(),
            size: Size {
                width: placed.size.width.max(name_width) + 2.0 * m.cache_pad,
                height: placed.size.height + 2.0 * m.cache_pad + name_height,
            },
        }
    }

    fn place<T>(&self, boxes: Vec<Placed<T>>, gap: f64, ratio: f64) -> Placed<Placed<T>> {
        let sizes: Vec<_> = boxes.iter().map(|placed| placed.size).collect();
        let Flow { places, size } = flow(&sizes, gap, width_for_ratio(&sizes, gap, ratio));
        let parts = places.into_iter().zip(boxes).map(|((x, y), placed)| (x, y, placed));
        Placed { parts: parts.collect(), size }
    }

    /// What stands at the left and at the right of a card's head.
    fn header(&self, node: &NodeView<'_>, show_package: bool) -> (String, String) {
        if self.measures.is_small {
            return (node.os_id.to_string(), String::new());
        }
        let package = if show_package { node.package_text() } else { String::new() };
        let memory = node.memory_text();
        let right = if package.is_empty() { memory } else { format!("{memory} · {package}") };
        (format!("node {}", node.os_id), right)
    }

    fn draw_frame(
        &self,
        canvas: &mut Canvas,
        frame: &Frame<'_, '_>,
        placed: &Placed<Placed<CacheLayout<'_>>>,
        (x, y): (f64, f64),
    ) {
        let m = self.measures;
        let (mut left, mut top) = (x, y);
        if let Some(name) = &frame.name {
            let size = (placed.size.width, placed.size.height);
            canvas.rect((x, y), size, 8.0, "package");
            let baseline = y + m.frame_header * 0.68;
            let class = if m.is_small { "name small" } else { "name" };
            canvas.text(x + m.frame_pad, baseline, class, name);
            (left, top) = (x + m.frame_pad, y + m.frame_header);
        }
        for (node, (x, y, card)) in frame.nodes.iter().zip(&placed.parts) {
            self.draw_card(canvas, node, card, (left + x, top + y), frame.name.is_none());
        }
    }

    fn draw_card(
        &self,
        canvas: &mut Canvas,
        node: &NodeView<'_>,
        card: &Placed<CacheLayout<'_>>,
        (x, y): (f64, f64),
        show_package: bool,
    ) {
        let m = self.measures;
        let is_odd = is_odd(node);
        let class = if is_odd { "node odd" } else { "node" };
        let hint = format!(
            "node {}: {}, {} {}",
            node.os_id,
            count(node.cpus().count(), "CPU"),
            node.memory_text(),
            node.package_text()
        );
        canvas.hinted_rect((x, y), (card.size.width, card.size.height), 6.0, class, hint.trim());
        let (left, right) = self.header(node, show_package);
        let baseline = y + m.card_pad + if m.is_small { 5.0 } else { 9.0 };
        let class = if m.is_small { "name small" } else { "name" };
        canvas.text(x + m.card_pad, baseline, class, &left);
        if !right.is_empty() {
            let at = x + card.size.width - m.card_pad;
            let class = if is_odd { "note right odd-text" } else { "note right" };
            canvas.text(at, baseline, class, &right);
        }
        let (left, top) = (x + m.card_pad, y + m.card_pad + m.header);
        if node.caches.is_empty() && !m.is_small {
            canvas.text(left, top + 12.0, "note odd-text", "no CPUs");
        }
        for (cache, (x, y, layout)) in node.caches.iter().zip(&card.parts) {
            self.draw_cache(canvas, cache, layout, (left + x, top + y));
        }
        let bar = (left, y + card.size.height - m.card_pad - m.memory);
        self.draw_memory(canvas, node, bar, card.size.width - 2.0 * m.card_pad);
    }

    fn draw_cache(
        &self,
        canvas: &mut Canvas,
        cache: &CacheView<'_>,
        layout: &CacheLayout<'_>,
        (x, y): (f64, f64),
    ) {
        let m = self.measures;
        let mut cores_y = y + m.cache_pad;
        if cache.llc.is_some() {
            canvas.rect((x, y), (layout.size.width, layout.size.height), 4.0, "cache");
            if !m.is_small {
                canvas.text(x + m.cache_pad, y + m.cache_name, "cache-name", &cache.text());
                cores_y += m.cache_name;
            }
        }
        for (core_x, core_y, cpus) in &layout.parts {
            let (x, y) = (x + m.cache_pad + core_x, cores_y + core_y);
            if cpus.len() > 1 && m.core_pad > 0.0 {
                let width = cpus.len() as f64 * (m.cpu.width + m.core_pad) + m.core_pad;
                canvas.rect((x, y), (width, m.cpu.height + 2.0 * m.core_pad), 3.0, "core");
            }
            for (at, cpu) in cpus.iter().enumerate() {
                let x = x + m.core_pad + at as f64 * (m.cpu.width + m.core_pad);
                self.draw_cpu(canvas, cpu, (x, y + m.core_pad));
            }
        }
    }

    fn draw_cpu(&self, canvas: &mut Canvas, cpu: &Cpu, (x, y): (f64, f64)) {
        let Size { width, height } = self.measures.cpu;
        let off = if cpu.online { "" } else { " off" };
        let core = cpu.core.map_or(String::new(), |core| format!(", core {core}"));
        let state = if cpu.online { "" } else { ", offline" };
        let hint = format!("CPU {}{core}{state}", cpu.os_id.0);
        let radius = if self.measures.is_small { 1.0 } else { 3.0 };
        canvas.hinted_rect((x, y), (width, height), radius, &format!("cpu{off}"), &hint);
        if !self.measures.is_small {
            let class = format!("cpu-name{off}");
            let name = cpu.os_id.0.to_string();
            canvas.text(x + width / 2.0, y + height / 2.0 + 3.3, &class, &name);
        }
    }

    fn draw_memory(
        &self,
        canvas: &mut Canvas,
        node: &NodeView<'_>,
        (x, y): (f64, f64),
        width: f64,
    ) {
        let height = self.measures.memory;
        let Some(Bytes(memory)) = node.memory else {
            return canvas.rect((x, y), (width, height), 2.0, "memory-unknown");
        };
        canvas.rect((x, y), (width, height), 2.0, "memory-ground");
        if memory > 0 {
            let filled = width * memory as f64 / self.largest.0.max(1) as f64;
            canvas.rect((x, y), (filled.max(1.0), height), 2.0, "memory");
        }
    }

    /// CPUs whose node the kernel does not tell, below everything else.
    fn draw_homeless(&self, canvas: &mut Canvas, view: &View<'_>, (x, y): (f64, f64)) -> Size {
        if view.homeless.is_empty() {
            return Size::default();
        }
        let m = self.measures;
        let all_offline = view.homeless.iter().all(|cpu| !cpu.online);
        let name = if all_offline { "offline" } else { "of no known node" };
        let sizes = vec![m.cpu; view.homeless.len()];
        let Flow { places, size } = flow(&sizes, m.cpu_gap, 32.0 * (m.cpu.width + m.cpu_gap));
        let header = 18.0;
        let size = Size {
            width: size.width.max(text_width(name, 12.0)) + 2.0 * m.card_pad,
            height: size.height + header + 2.0 * m.card_pad,
        };
        canvas.rect((x, y), (size.width, size.height), 6.0, "node odd");
        canvas.text(x + m.card_pad, y + m.card_pad + 9.0, "name odd-text", name);
        for (cpu, (cpu_x, cpu_y)) in view.homeless.iter().zip(places) {
            let at = (x + m.card_pad + cpu_x, y + m.card_pad + header + cpu_y);
            self.draw_cpu(canvas, cpu, at);
        }
        size
    }
}

/// Says what the colours mean that occur, in rows of at most `width_max`.
pub fn draw_legend(
    canvas: &mut Canvas,
    view: &View<'_>,
    (left, top): (f64, f64),
    width_max: f64,
) -> Size {
    let cpus = view.machine.cpus();
    let nodes = &view.nodes;
    let occurring = [
        ("cpu", "CPU", true),
        ("cpu off", "offline CPU", cpus.iter().any(|cpu| !cpu.online)),
        ("core", "core of several CPUs", nodes.iter().any(has_core_of_several)),
        ("cache", "last-level cache", !view.machine.llcs().is_empty()),
        ("memory", "memory (full: as much as the largest node has)", true),
        ("node odd", "without CPUs or memory", nodes.iter().any(is_odd)),
    ];
    let entries: Vec<_> = occurring.into_iter().filter(|(_, _, occurs)| *occurs).collect();
    let size = |text: &str| Size { width: 19.0 + text_width(text, 11.0), height: 14.0 };
    let sizes: Vec<_> = entries.iter().map(|(_, text, _)| size(text)).collect();
    let Flow { places, size } = flow(&sizes, 10.0, width_max);
    for ((class, text, _), (x, y)) in entries.into_iter().zip(places) {
        canvas.rect((left + x, top + y), (14.0, 10.0), 2.0, class);
        canvas.text(left + x + 19.0, top + y + 9.0, "note", text);
    }
    size
}

fn is_odd(node: &NodeView<'_>) -> bool {
    node.caches.is_empty() || node.memory == Some(Bytes(0))
}

fn has_core_of_several(node: &NodeView<'_>) -> bool {
    node.caches.iter().any(|cache| {
        cache.cpus.windows(2).any(|pair| {
            let core = |cpu: &Cpu| (cpu.package, cpu.core);
            pair[0].core.is_some() && core(pair[0]) == core(pair[1])
        })
    })
}
