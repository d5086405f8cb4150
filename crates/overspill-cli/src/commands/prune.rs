//! `overspill prune`: deletes what has expired, and cleans up.

use std::time::SystemTime;

use futures_lite::future::block_on;
use overspill::store::{Expired, Handle, IndexHealth, Resident, Retention, StoreError, Stored};
use overspill_store::Sweep;
use serde::Serialize;

use crate::cli;
use crate::failure::{Failure, NOT_DONE};
use crate::output::{self, Out, Progress, grouped};
use crate::settings::Settings;
use crate::shelf::Shelf;

/// What goes and what stays; as `--json` writes it.
#[derive(Debug, Serialize)]
struct Report {
    dry_run: bool,
    expired: Vec<Goes>,
    kept: Vec<Stays>,
    leftovers: u64,
    indexes: u64,
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Goes {
    handle: Handle,
    bytes: u64,
    modified: i64,
    cause: String,
    #[serde(skip)]
    age: String,
}

#[derive(Debug, Serialize)]
struct Stays {
    handle: Handle,
    bytes: u64,
    modified: i64,
    leased: bool,
    #[serde(skip)]
    age: String,
}

pub(crate) fn prune(common: &cli::Common, args: &cli::Prune) -> Result<u8, Failure> {
    let settings = Settings::of_reader(common)?;
    let shelf = Shelf::open(&settings)?;
    // One limit on the command line is all there is: the file's other one was not meant.
    let retention = match (args.older_than, args.max_size) {
        (None, None) => settings.retention().unwrap_or_else(|why| {
            output::notice(why);
            Retention::default()
        }),
        (age, size) => Retention { max_age: age.map(|it| it.0), max_bytes: size.map(|it| it.0) },
    };

    let mut sweep = block_on(shelf.store.plan_sweep(retention, SystemTime::now()))?;
    if !args.dry_run {
        let mut progress = Progress::of_count("deleting", sweep.expired.len() as u64);
        let done = move |done| progress.set(done as u64);
        sweep = block_on(shelf.store.carry_out(sweep, done))?;
    }
    let indexes = mend_indexes(&shelf, &mut sweep, args.dry_run);
    let report = Report::new(sweep, indexes, args.dry_run);

    for warning in &report.warnings {
        output::notice(warning);
    }
    let mut out = Out::new();
    match common.json {
        true => out.json(&report)?,
        false => out.text(&report.text(&retention))?,
    }
    out.flush()?;
    Ok(if report.warnings.is_empty() { 0 } else { NOT_DONE })
}

/// Counts the missing and damaged indexes of what stays, and builds them again or not.
fn mend_indexes(shelf: &Shelf, sweep: &mut Sweep, dry_run: bool) -> u64 {
    let mut count = 0;
    let mut progress = Progress::of_count("looking at indexes", sweep.kept.len() as u64);
    for (done, Resident { handle, .. }) in sweep.kept.iter().enumerate() {
        progress.set(done as u64);
        match block_on(mend_index(shelf, handle, dry_run)) {
            Ok(is_one) => count += u64::from(is_one),
            // It went meanwhile, by another hand.
            Err(error) if error.is_gone() => {}
            Err(error) => sweep.warnings.push(error.to_string()),
        }
    }
    count
}

async fn mend_index(shelf: &Shelf, handle: &Handle, dry_run: bool) -> Result<bool, StoreError> {
    let stored = match Stored::open(&shelf.port, handle).await {
        // That is for `verify` to say.
        Err(StoreError::Damaged { .. }) => return Ok(false),
        stored => stored?,
    };
    let health = stored.check_index().await?;
    if health == IndexHealth::Sound || dry_run {
        return Ok(health != IndexHealth::Sound);
    }
    let stored = match health {
        IndexHealth::Missing => stored,
        _ => {
            let stored = stored.without_index().await?;
            shelf.store.delete_index(handle).await?;
            stored
        }
    };
    Ok(stored.reindex().await? == IndexHealth::Sound)
}

impl Report {
    fn new(sweep: Sweep, indexes: u64, dry_run: bool) -> Self {
        Self {
            dry_run,
            expired: sweep.expired.into_iter().map(Goes::from).collect(),
            kept: sweep.kept.into_iter().map(Stays::from).collect(),
            leftovers: sweep.leftovers,
            indexes,
            warnings: sweep.warnings,
        }
    }

    /// What goes and, where nothing is done yet, what stays; then how much that is.
    fn text(&self, retention: &Retention) -> String {
        let goes = if self.dry_run { "would go" } else { "went" };
        let mut rows: Vec<Vec<String>> = Vec::new();
        for Goes { handle, bytes, age, cause, .. } in &self.expired {
            let fate = format!("{goes}: {cause}");
            rows.push(vec![handle.to_string(), grouped(*bytes), age.clone(), fate]);
        }
        for Stays { handle, bytes, age, leased, .. } in self.kept.iter().filter(|_| self.dry_run) {
            let fate = if *leased { "stays: it is under a lease" } else { "stays" };
            rows.push(vec![handle.to_string(), grouped(*bytes), age.clone(), fate.to_owned()]);
        }
        let mut text = String::new();
        if !rows.is_empty() {
            text = output::table(&["HANDLE", "BYTES", "AGE", "FATE"], &[1, 2], rows);
            text.push_str("\n\n");
        }

        let bytes_gone: u64 = self.expired.iter().map(|one| one.bytes).sum();
        let bytes_left: u64 = self.kept.iter().map(|one| one.bytes).sum();
        let stay = if self.dry_run { "would stay" } else { "stay" };
        let mut line = |what: &str, count: u64, bytes: Option<u64>| {
            let bytes = bytes.map_or(String::new(), |it| format!(", {} bytes", grouped(it)));
            text.push_str(&format!("{what}: {}{bytes}\n", grouped(count)));
        };
        line(&format!("payloads that {goes}"), self.expired.len() as u64, Some(bytes_gone));
        line(&format!("payloads that {stay}"), self.kept.len() as u64, Some(bytes_left));
        if self.leftovers > 0 {
            line(&format!("leftovers of crashed writers that {goes}"), self.leftovers, None);
        }
        if self.indexes > 0 {
            let done = if self.dry_run { "would be" } else { "were" };
            line(&format!("lost and damaged indexes that {done} built again"), self.indexes, None);
        }
        if retention.is_forever() {
            text.push_str("nothing expires: [retention] sets no limit, nor does a flag\n");
        }
        text
    }
}

impl From<Expired> for Goes {
    fn from(Expired { handle, stat, cause }: Expired) -> Self {
        let (modified, age) = (output::unix(stat.modified), output::age(stat.modified));
        Self { handle, bytes: stat.len, modified, cause: cause.to_string(), age }
    }
}

impl From<Resident> for Stays {
    fn from(Resident { handle, stat, leased }: Resident) -> Self {
        let (modified, age) = (output::unix(stat.modified), output::age(stat.modified));
        Self { handle, bytes: stat.len, modified, leased, age }
    }
}
