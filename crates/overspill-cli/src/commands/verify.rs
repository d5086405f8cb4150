//! `overspill verify`: whether payloads are still what was stored.

use futures_lite::future::block_on;
use overspill::store::{Handle, IndexHealth, StoreError, StoreExt, Stored};
use serde::Serialize;

use crate::cli;
use crate::failure::{Failure, NOT_DONE};
use crate::output::{self, Out, Progress};
use crate::settings::Settings;
use crate::shelf::Shelf;

/// What was found of one payload; as `--json` writes it.
#[derive(Debug, Serialize)]
struct Verified {
    handle: Handle,
    state: &'static str,
    detail: String,
}

pub(crate) fn verify(common: &cli::Common, args: &cli::Verify) -> Result<u8, Failure> {
    let settings = Settings::of_reader(common)?;
    let shelf = Shelf::open(&settings)?;
    let is_all = args.handles.is_empty() || args.handles == ["all"];
    let handles: Vec<Handle> = if is_all {
        let listed = block_on(shelf.store.list(None))?;
        let mut all: Vec<_> = listed.into_iter().map(|(handle, _)| handle).collect();
        // What is no payload cannot be listed, but stands in the way of one.
        all.extend(block_on(shelf.store.strangers())?);
        all.sort_unstable();
        all
    } else {
        args.handles.iter().map(|text| shelf.handle(text)).collect::<Result<_, _>>()?
    };

    let mut all = Vec::new();
    for handle in handles {
        match block_on(check(&shelf, &handle)) {
            Ok(detail) => all.push(Verified { handle, state: "ok", detail }),
            // Removed since it was listed.
            Err(error) if is_all && error.is_gone() => {}
            Err(StoreError::Expired { expiry, .. }) => {
                let detail = format!("it expired {expiry}");
                all.push(Verified { handle, state: "missing", detail });
            }
            Err(StoreError::NotFound { .. }) => {
                let detail = "it is not in the store".to_owned();
                all.push(Verified { handle, state: "missing", detail });
            }
            Err(StoreError::Damaged { what, .. }) => {
                all.push(Verified { handle, state: "damaged", detail: what });
            }
            Err(error) => {
                all.push(Verified { handle, state: "unreadable", detail: error.to_string() });
            }
        }
    }
    let is_sound = all.iter().all(|one| one.state == "ok");

    let mut out = Out::new();
    if common.json {
        out.json(&all)?;
    } else if all.is_empty() {
        out.text("nothing is stored")?;
    } else {
        let rows = all.into_iter();
        let rows = rows.map(|one| vec![one.handle.to_string(), one.state.to_owned(), one.detail]);
        out.text(&output::table(&["HANDLE", "STATE", "DETAIL"], &[], rows.collect()))?;
    }
    out.flush()?;
    Ok(if is_sound { 0 } else { NOT_DONE })
}

async fn check(shelf: &Shelf, handle: &Handle) -> Result<String, StoreError> {
    let stored = Stored::open(&shelf.port, handle).await?;
    let bytes = stored.receipt().bytes;
    let mut progress = Progress::of_bytes(handle.as_str(), bytes);
    let index = match stored.verify(&mut |done| progress.set(done)).await? {
        IndexHealth::Sound => "",
        IndexHealth::Missing => "; the index is missing: `overspill prune` builds it again",
        IndexHealth::Damaged => "; the index is damaged: `overspill prune` builds it again",
    };
    Ok(format!("{} bytes{index}", output::grouped(bytes)))
}
