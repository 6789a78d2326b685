//! What the daemon shows on loopback: a page, its data, metrics. Nothing can be changed from there.

mod metrics;

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::extract::{self, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use quartier_decide::reporter::view::{Absent, Explanation};
use quartier_model::TaskId;
use quartier_observe::tasks::{Whose, parent, whose};

use crate::board::{Board, Sheet};

/// A daemon that does not look for so long is ill.
const ILL_AFTER: Duration = Duration::from_secs(5);
/// What a viewer gets is not older.
const FRESH: Duration = Duration::from_millis(100);

/// So many are asked whether they are held: who started a process, who started that, and so on.
const GENERATIONS_MAX: usize = 32;

const PAGE: &str = include_str!("page.html");
const NO_SUCH: &str = "there is: / /view.json /processes/PID /metrics /healthz\n";
const ILL: &str = "quartierd has not looked at the tasks of this machine for 5 s and its period\n";

/// All that there is.
pub fn router(board: Board) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/view.json", get(view))
        .route("/processes/{pid}", get(process))
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .fallback(|| async { (StatusCode::NOT_FOUND, NO_SUCH) })
        .with_state(board)
}

async fn page() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response()
}

/// The latest, or that there is none.
async fn latest(board: &Board) -> Result<std::sync::Arc<Sheet>, Response> {
    let long = ILL_AFTER + board.period();
    let sheet = tokio::time::timeout(long, board.get(FRESH)).await.ok().flatten();
    sheet.ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, ILL).into_response())
}

async fn view(State(board): State<Board>) -> Result<Response, Response> {
    Ok(axum::Json(&latest(&board).await?.view).into_response())
}

async fn process(
    State(board): State<Board>,
    extract::Path(pid): extract::Path<String>,
) -> Result<Response, Response> {
    let bad = || (StatusCode::BAD_REQUEST, "give the number of a process\n").into_response();
    let pid: u32 = pid.parse().map_err(|_| bad())?;
    let sheet = latest(&board).await?;
    Ok(axum::Json(explain(&sheet, pid)).into_response())
}

/// Of one that was not seen the kernel says which process it is of, and whether there is one; of all of them, who started them.
fn explain(sheet: &Sheet, number: u32) -> Explanation {
    let seen = Explanation::of(&sheet.view, &sheet.snapshot, number);
    let (pid, seen) = match &seen.process {
        Some(process) => (process.placed.factors.process.id, seen),
        None => {
            let whose = whose(Path::new("/"), number);
            let pid = whose.as_ref().map_or(number, |whose| whose.process.id);
            let of_process = Explanation::of(&sheet.view, &sheet.snapshot, pid);
            let absent = of_process.process.is_none().then(|| absent(whose, &sheet.watched));
            (pid, Explanation { absent, ..of_process })
        }
    };
    let held_on = |pid| sheet.held.get(&pid).into_iter().flatten().copied().collect();
    let starters =
        std::iter::successors(parent(Path::new("/"), pid), |pid| parent(Path::new("/"), *pid));
    let held = starters.take(GENERATIONS_MAX).find(|pid| sheet.held.contains_key(pid));
    let starter_held_on = held.map(held_on).unwrap_or_default();
    Explanation { held_on: held_on(pid), starter_held_on, ..seen }
}

fn absent(whose: Option<Whose>, watched: &BTreeSet<TaskId>) -> Absent {
    match whose {
        None => Absent::Gone,
        Some(Whose { name, is_kernel_thread: true, .. }) => Absent::KernelThread { name },
        Some(Whose { process, name, .. }) if watched.contains(&process) => {
            Absent::Asleep { pid: process.id, name }
        }
        Some(Whose { process, name, .. }) => Absent::New { pid: process.id, name },
    }
}

async fn metrics(State(board): State<Board>) -> Result<Response, Response> {
    let sheet = latest(&board).await?;
    let text = metrics::text(&sheet.view);
    Ok(([(header::CONTENT_TYPE, quartier_loopback::OPENMETRICS)], text).into_response())
}

async fn healthz(State(board): State<Board>) -> Result<&'static str, Response> {
    latest(&board).await.map(|_| "ok\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn why_a_process_was_not_seen_is_told() {
        let process = TaskId { id: 7, start_ticks: 9 };
        let named = |is_kernel_thread| {
            let name = "x".to_owned();
            Some(Whose { process, name, is_kernel_thread })
        };
        let watched = BTreeSet::from([process]);
        // Another process with the same number.
        let another = BTreeSet::from([TaskId { start_ticks: 8, ..process }]);
        let (pid, name) = (7, "x".to_owned());
        assert_eq!(absent(None, &watched), Absent::Gone);
        assert_eq!(absent(named(true), &watched), Absent::KernelThread { name: name.clone() });
        assert_eq!(absent(named(false), &watched), Absent::Asleep { pid, name: name.clone() });
        assert_eq!(absent(named(false), &another), Absent::New { pid, name });
    }
}
