//! Writes made-up reports to a folder, in all their forms, to be looked at:
//!
//! ```text
//! cargo run -p quartier-count --features render --example gallery -- FOLDER
//! ```
#![forbid(unsafe_code)]

#[path = "../tests/made_up/mod.rs"]
mod made_up;

use std::path::Path;
use std::{env, fs, io};

use made_up::MadeUp;
use quartier_count::{Comparison, CountMode, Report, html, svg, text};

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).unwrap_or_else(|| "gallery".to_owned());
    let folder = Path::new(&folder);
    fs::create_dir_all(folder)?;
    let sampled = CountMode::Sampled { one_in: 16, error_percent: 1.4 };
    for (name, made_up) in [
        ("nodes-1", MadeUp::new(1, 4)),
        ("nodes-4", MadeUp::new(4, 2)),
        ("nodes-8", MadeUp::new(8, 4).with(|made_up| made_up.mode = sampled)),
        ("nodes-64", MadeUp::new(64, 4)),
        ("uneven", MadeUp::new(3, 1).with(|made_up| made_up.cpus_per_node = vec![2, 0, 3])),
        ("local", MadeUp::new(4, 2).with(|made_up| made_up.remote_per_mille = 0)),
        ("none", MadeUp::new(4, 2).with(|made_up| made_up.commands = 0)),
    ] {
        write_report(folder, name, &made_up.report())?;
    }
    let command = ["./eighths", "64", "8"].map(str::to_owned).to_vec();
    let compared = Comparison::new(command, made_up::policies(), made_up::sweep());
    write_comparison(folder, &compared.expect("they are alike"))
}

fn write_report(folder: &Path, name: &str, report: &Report) -> io::Result<()> {
    fs::write(folder.join(format!("{name}.txt")), text::report(report))?;
    fs::write(folder.join(format!("{name}.html")), html::report(report))?;
    fs::write(folder.join(format!("{name}.json")), serde_json::to_vec_pretty(report)?)?;
    write_drawings(folder, name, &svg::report(report))
}

fn write_drawings(folder: &Path, name: &str, drawings: &[svg::Drawing]) -> io::Result<()> {
    drawings.iter().try_for_each(|drawing| {
        fs::write(folder.join(format!("{name}.{}.svg", drawing.name)), drawing.to_svg())
    })
}

fn write_comparison(folder: &Path, compared: &Comparison) -> io::Result<()> {
    fs::write(folder.join("compare.txt"), text::comparison(compared))?;
    fs::write(folder.join("compare.html"), html::comparison(compared))?;
    write_drawings(folder, "compare", &svg::comparison(compared))
}
