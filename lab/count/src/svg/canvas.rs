//! Shapes and text with classes, and what makes a drawing of them.

use svg::Document;
use svg::node::element::{
    Circle, Description, Element, Group, Line, Path, Rectangle, Style, Text, Title,
};

use super::style::{BOTH, DARK, LIGHT};
use crate::words::clean;

/// Room around a drawing that stands alone, and for its head, pixels.
const MARGIN: f64 = 24.0;
const HEAD: f64 = 54.0;

/// A finished drawing.
#[derive(Clone, Debug)]
pub struct Drawing {
    /// Short and the same in every report: fit for a file's name.
    pub name: &'static str,
    /// What it is.
    pub title: String,
    /// One line below.
    pub subtitle: String,
    /// What can be seen on it, for those who cannot.
    pub description: String,
    /// What its modelled numbers follow from, where it has any: a page says that beside it.
    parameters: Option<String>,
    width: f64,
    height: f64,
    body: Group,
}

/// A drawing under construction. Later shapes cover earlier ones.
pub(super) struct Canvas {
    body: Group,
}

impl Drawing {
    /// With the sentence that says what its numbers follow from.
    pub(super) fn with_parameters(self, parameters: String) -> Self {
        Self { parameters: Some(parameters), ..self }
    }

    /// As a file of its own.
    #[must_use]
    pub fn to_svg(&self) -> String {
        let (width, height) = (self.width + 2.0 * MARGIN, self.height + HEAD + 2.0 * MARGIN);
        let style = format!("{BOTH}{LIGHT}@media (prefers-color-scheme:dark){{{DARK}}}");
        let mut head = Canvas::new();
        head.rect((0.0, 0.0), (width, height), "ground", None);
        head.text(MARGIN, MARGIN + 16.0, "head", &self.title);
        head.text(MARGIN, MARGIN + 36.0, "sub muted", &self.subtitle);
        let at = format!("translate({} {})", px(MARGIN), px(MARGIN + HEAD));
        self.root(width, height)
            .add(Title::new(clean(&self.title)).set("id", format!("{}-title", self.name)))
            .add(self.desc(self.parameters.as_deref()))
            .set("aria-labelledby", format!("{0}-title {0}-desc", self.name))
            .add(Style::new(style))
            .add(head.body)
            .add(self.body.clone().set("transform", at))
            .to_string()
            + "\n"
    }

    /// Within a page that has the style. A title there would be a tooltip over all of it.
    pub(crate) fn inline(&self) -> String {
        self.root(self.width, self.height)
            .set("aria-label", clean(&self.title))
            .set("aria-describedby", format!("{}-desc", self.name))
            .add(self.desc(None))
            .add(self.body.clone())
            .to_string()
    }

    fn root(&self, width: f64, height: f64) -> Document {
        Document::new()
            .set("viewBox", format!("0 0 {} {}", px(width), px(height)))
            .set("width", px(width))
            .set("height", px(height))
            .set("role", "img")
    }

    fn desc(&self, parameters: Option<&str>) -> Description {
        let parameters = parameters.map_or(String::new(), |parameters| format!(" {parameters}"));
        let words = clean(&format!("{}{parameters}", self.description));
        let words = svg::node::Text::new(words);
        Description::new().set("id", format!("{}-desc", self.name)).add(words)
    }
}

impl Canvas {
    pub(super) fn new() -> Self {
        Self { body: Group::new() }
    }

    pub(super) fn rect(
        &mut self,
        (x, y): (f64, f64),
        (width, height): (f64, f64),
        class: &str,
        hint: Option<&str>,
    ) {
        let rect = Rectangle::new()
            .set("x", px(x))
            .set("y", px(y))
            .set("width", px(width.max(0.0)))
            .set("height", px(height.max(0.0)))
            .set("class", class);
        self.add(rect, hint);
    }

    pub(super) fn text(&mut self, x: f64, y: f64, class: &str, words: &str) {
        let text = Text::new(clean(words)).set("x", px(x)).set("y", px(y)).set("class", class);
        self.add(text, None);
    }

    /// Text that is read from below upwards, centred on a point.
    pub(super) fn upward_text(&mut self, x: f64, y: f64, class: &str, words: &str) {
        let turn = format!("translate({} {}) rotate(-90)", px(x), px(y));
        self.add(Text::new(clean(words)).set("transform", turn).set("class", class), None);
    }

    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let line = Line::new()
            .set("x1", px(from.0))
            .set("y1", px(from.1))
            .set("x2", px(to.0))
            .set("y2", px(to.1))
            .set("class", class);
        self.add(line, None);
    }

    /// Straight lines from point to point.
    pub(super) fn path(
        &mut self,
        points: &[(f64, f64)],
        closed: bool,
        class: &str,
        hint: Option<&str>,
    ) {
        let mut data = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            data.push_str(&format!("{letter}{} {}", px(*x), px(*y)));
        }
        if closed {
            data.push('Z');
        }
        self.add(Path::new().set("d", data).set("class", class), hint);
    }

    pub(super) fn circle(
        &mut self,
        (x, y): (f64, f64),
        radius: f64,
        class: &str,
        hint: Option<&str>,
    ) {
        let circle = Circle::new()
            .set("cx", px(x))
            .set("cy", px(y))
            .set("r", px(radius))
            .set("class", class);
        self.add(circle, hint);
    }

    /// Squares with their meanings, from `x` to the right; where the next would be.
    pub(super) fn legend(&mut self, x: f64, y: f64, of: &[(&str, String)]) -> f64 {
        let mut x = x;
        for (class, name) in of {
            self.rect((x, y - 10.0), (12.0, 12.0), class, None);
            self.text(x + 18.0, y, "", name);
            x += 18.0 + text_width(name, 11.5) + 18.0;
        }
        x
    }

    pub(super) fn finish(self, about: About, width: f64, height: f64) -> Drawing {
        let About { name, title, subtitle, description } = about;
        let (parameters, body) = (None, self.body);
        Drawing { name, title, subtitle, description, parameters, width, height, body }
    }

    fn add(&mut self, shape: impl Into<Element>, hint: Option<&str>) {
        let mut shape: Element = shape.into();
        if let Some(hint) = hint {
            svg::Node::append(&mut shape, Title::new(clean(hint)));
        }
        svg::Node::append(&mut self.body, shape);
    }
}

/// The words of a drawing.
pub(super) struct About {
    pub(super) name: &'static str,
    pub(super) title: String,
    pub(super) subtitle: String,
    pub(super) description: String,
}

/// Pixels with at most one decimal: what rounding leaves out nobody sees, and files stay small.
pub(super) fn px(value: f64) -> f64 {
    let tenths = (value * 10.0).round() / 10.0;
    // No `-0`.
    if tenths == 0.0 { 0.0 } else { tenths }
}

/// About how wide a text is: sans-serif letters are around 0.6 of their size.
pub(super) fn text_width(text: &str, font_size: f64) -> f64 {
    text.chars().count() as f64 * font_size * 0.6
}
