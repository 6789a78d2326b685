//! Pages and drawings: well-formed, self-contained, and with the numbers of the JSON.

mod made_up;

use made_up::MadeUp;
use quartier_count::{Comparison, Policy, Report, html, svg};
use roxmltree::{Document, Node};

fn shapes() -> Vec<Report> {
    let made_up = [
        MadeUp::new(1, 4),
        MadeUp::new(4, 2),
        MadeUp::new(64, 4),
        MadeUp::new(3, 1).with(|made_up| made_up.cpus_per_node = vec![2, 0, 3]),
        MadeUp::new(4, 2).with(|made_up| made_up.remote_per_mille = 0),
        MadeUp::new(4, 2).with(|made_up| made_up.commands = 0),
        MadeUp::new(4, 2).with(|made_up| made_up.commands = i64::MAX as u64),
        MadeUp::new(2, 1).with(|made_up| made_up.has_threads = false),
        MadeUp::new(2, 1).with(|made_up| made_up.sets_one_in = 4),
    ];
    let mut reports: Vec<_> = made_up.iter().map(MadeUp::report).collect();
    reports[1].command = vec!["sh".to_owned(), "-c".to_owned(), "</script>&\u{1b}\"'".to_owned()];
    reports[1].notes = vec!["<b>a note</b> & \u{0}".to_owned()];
    // Too small a share to write: `< 0.01 %`, which is no markup.
    let few = &mut reports[4].program;
    few.remote_percent = Some(0.0001);
    (few.kinds[0].local, few.kinds[0].remote) = (1_000_000, 1);
    reports
}

fn comparison() -> Comparison {
    Comparison::new(vec!["a<b".to_owned()], made_up::policies(), made_up::sweep()).unwrap()
}

fn parse(page: &str) -> Document<'_> {
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    Document::parse_with_options(page, options).unwrap()
}

fn value_of<'a>(json: &'a serde_json::Value, at: &str) -> &'a serde_json::Value {
    json.pointer(at).unwrap_or_else(|| panic!("{at} is not in the JSON"))
}

/// What a text like `12.3 M` or `45.6 %` says.
fn read(text: &str) -> Option<f64> {
    let text = text.replace(',', "");
    let text = text.strip_suffix('×').unwrap_or(&text);
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let factor = match unit {
        "" | "%" | "MiB" | "ms" => 1.0,
        "k" | "s" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "µs" => 1e-3,
        "ns" => 1e-6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

fn check_numbers(page: &Document<'_>, json: &serde_json::Value) -> usize {
    let data: Vec<Node<'_, '_>> =
        page.descendants().filter(|node| node.tag_name().name() == "data").collect();
    for node in &data {
        let at = node.attribute("data-at").unwrap();
        let value = value_of(json, at);
        assert_eq!(node.attribute("value").unwrap(), value.to_string(), "{at}");
        let text = node.text().unwrap();
        let exact = value.as_f64().unwrap();
        let Some(read) = read(text) else {
            assert!(text.starts_with(['<', '>']), "{at}: {text}");
            continue;
        };
        // A utilisation is a part and written in percent.
        let exact = if at.contains("utilisation") { 100.0 * exact } else { exact };
        let error = (read - exact).abs() / exact.abs().max(1e-9);
        assert!(error < 0.01 || (read - exact).abs() < 0.006, "{at}: {text} for {exact}");
    }
    data.len()
}

#[test]
fn numbers_on_a_page_are_those_of_the_json() {
    for report in shapes() {
        let page = html::report(&report);
        let page = parse(&page);
        let json = serde_json::to_value(&report).unwrap();
        let nr = check_numbers(&page, &json);
        assert!(nr > 20, "{nr}");
    }
    let comparison = comparison();
    let page = html::comparison(&comparison);
    assert!(check_numbers(&parse(&page), &serde_json::to_value(&comparison).unwrap()) > 60);
}

#[test]
fn a_page_has_its_data_in_it() {
    for report in shapes() {
        let page = html::report(&report);
        let page = parse(&page);
        let data = page.descendants().find(|node| node.attribute("id") == Some("data")).unwrap();
        assert_eq!(serde_json::from_str::<Report>(data.text().unwrap()).unwrap(), report);
    }
    let comparison = comparison();
    let page = html::comparison(&comparison);
    let page = parse(&page);
    let data = page.descendants().find(|node| node.attribute("id") == Some("data")).unwrap();
    assert_eq!(serde_json::from_str::<Comparison>(data.text().unwrap()).unwrap(), comparison);
}

#[test]
fn a_page_fetches_nothing_and_runs_nothing() {
    let pages = shapes()
        .iter()
        .map(html::report)
        .chain([html::comparison(&comparison())])
        .collect::<Vec<_>>();
    for text in pages {
        let page = parse(&text);
        for node in page.descendants().filter(Node::is_element) {
            for attribute in node.attributes() {
                assert!(!["src", "href", "onload"].contains(&attribute.name()), "{attribute:?}");
            }
            let is_script = node.tag_name().name() == "script";
            assert!(!is_script || node.attribute("type") == Some("application/json"));
        }
        let allowed = text.replace("http://www.w3.org/", "");
        for part in ["://", "@import", "url("] {
            assert!(!allowed.contains(part), "{part}");
        }
        for word in ["NaN", "inf\"", "modelled"] {
            assert_eq!(text.contains(word), word == "modelled", "{word}");
        }
    }
}

#[test]
fn ids_are_there_once_and_every_drawing_has_words() {
    for text in [html::report(&shapes()[1]), html::comparison(&comparison())] {
        let page = parse(&text);
        let mut ids: Vec<_> = page.descendants().filter_map(|node| node.attribute("id")).collect();
        let nr = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), nr);
        let mut drawings = page.descendants().filter(|node| node.tag_name().name() == "svg");
        assert!(drawings.all(|drawing| {
            let described = drawing.attribute("aria-describedby").unwrap();
            let described = page.descendants().find(|node| node.attribute("id") == Some(described));
            drawing.attribute("role") == Some("img")
                && drawing.attribute("aria-label").is_some_and(|label| !label.is_empty())
                && described.unwrap().text().is_some_and(|words| words.len() > 20)
        }));
    }
}

#[test]
fn drawings_stand_alone() {
    let reports = shapes();
    let mut drawings: Vec<_> = reports.iter().flat_map(svg::report).collect();
    drawings.extend(svg::comparison(&comparison()));
    assert!(drawings.len() > 20);
    for drawing in drawings {
        let text = drawing.to_svg();
        let parsed = Document::parse(&text).unwrap();
        let root = parsed.root_element();
        assert_eq!(root.first_element_child().unwrap().tag_name().name(), "title");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{}", drawing.name);
        // Nothing lies outside: a letter is about 0.6 of its size wide.
        let size: Vec<f64> = root
            .attribute("viewBox")
            .unwrap()
            .split(' ')
            .map(|part| part.parse().unwrap())
            .collect();
        for node in root.descendants().filter(|node| node.has_tag_name("rect")) {
            let of = |name: &str| {
                node.attribute(name).map_or(0.0, |value| value.parse::<f64>().unwrap())
            };
            assert!(of("width") >= 0.0 && of("height") >= 0.0, "{}", drawing.name);
            assert!(of("x") + of("width") <= size[2] + 0.2, "{}", drawing.name);
            assert!(of("y") + of("height") <= size[3] + 0.2, "{}", drawing.name);
        }
    }
}

#[test]
fn what_is_modelled_stands_alone_with_its_parameters() {
    let name = "<mine> & \"yours\"";
    let mut report = shapes()[1].clone();
    report.geometry.name = name.to_owned();
    let mut comparison = comparison();
    comparison.geometry.name = name.to_owned();
    let mut with_parameters = Vec::new();
    for drawing in svg::report(&report).into_iter().chain(svg::comparison(&comparison)) {
        let text = drawing.to_svg();
        let parsed = Document::parse(&text).unwrap();
        let desc = parsed.descendants().find(|node| node.has_tag_name("desc")).unwrap();
        let words = desc.text().unwrap();
        assert!(words.starts_with(&drawing.description), "{words}");
        if words.contains(&format!("Modelled on {name}: L1 32 KiB")) {
            with_parameters.push((drawing.name, words.contains("memory beyond it 150 cycles")));
        }
    }
    let all = ["modelled-time", "policies", "nodes-most-asked", "speed-up"];
    assert_eq!(with_parameters, all.map(|name| (name, name != "nodes-most-asked")));
    // A page has them in a table, and need not say them again with each drawing.
    assert_eq!(html::report(&report).matches("memory beyond it 150 cycles").count(), 0);
}

/// Where a text of a drawing lies, about: left, right, and its line.
fn extent(node: &Node<'_, '_>) -> Option<(f64, f64, f64)> {
    let of = |name: &str| node.attribute(name)?.parse::<f64>().ok();
    let (x, y) = (of("x")?, of("y")?);
    let classes = node.attribute("class").unwrap_or_default();
    let size = if classes.contains("small") { 9.5 } else { 11.5 };
    let width = node.text()?.chars().count() as f64 * size * 0.57;
    let left = match classes {
        classes if classes.contains("end") => x - width,
        classes if classes.contains("mid") => x - width / 2.0,
        _ => x,
    };
    Some((left, left + width, y))
}

#[test]
fn labels_do_not_lie_on_each_other() {
    let mut drawings: Vec<_> = shapes().iter().flat_map(svg::report).collect();
    drawings.extend(svg::comparison(&comparison()));
    for drawing in drawings {
        let text = drawing.to_svg();
        let parsed = Document::parse(&text).unwrap();
        let texts: Vec<_> = parsed.descendants().filter(|node| node.has_tag_name("text")).collect();
        for (at, one) in texts.iter().enumerate() {
            for other in &texts[at + 1..] {
                let (Some(a), Some(b)) = (extent(one), extent(other)) else { continue };
                let is_over = a.0 < b.1 && b.0 < a.1 && (a.2 - b.2).abs() < 8.0;
                let words = (one.text(), other.text());
                // Heads have an origin of their own.
                let is_head = [one, other].iter().any(|node| {
                    node.attribute("class")
                        .is_some_and(|class| class.contains("sub") || class == "head")
                });
                assert!(!is_over || is_head, "{}: {words:?}", drawing.name);
            }
        }
    }
}

#[test]
fn what_there_is_nothing_of_is_not_drawn() {
    let reports = shapes();
    let names = |report: &Report| -> Vec<_> {
        svg::report(report).iter().map(|drawing| drawing.name).collect()
    };
    assert_eq!(names(&reports[0]), ["over-time", "modelled-time"]);
    assert_eq!(
        names(&reports[1]),
        ["nodes-most-asked", "who-asks-whom", "over-time", "modelled-time"]
    );
    assert_eq!(names(&reports[4]), ["who-asks-whom", "over-time", "modelled-time"]);
    assert!(names(&reports[5]).is_empty());
    let first_only = vec![made_up::runs(Policy::FirstTouch, &[500], 0, None)];
    let comparison = Comparison::new(Vec::new(), first_only, Vec::new()).unwrap();
    assert_eq!(svg::comparison(&comparison).len(), 2);
    assert!(html::comparison(&comparison).contains("not known"));
}
