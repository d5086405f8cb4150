//! What the incumbent needs for what it can do of the same; `incumbent.py` measures it.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::row::Row;
use crate::{Scale, payload};

/// Has `python` measure it, and puts what it needs beside our rows.
pub(crate) fn compare(python: &Path, scale: Scale, folder: &Path, rows: &mut [Row]) -> Result<()> {
    fs::write(folder.join("log.txt"), payload::log(scale.spilled)?)?;
    fs::write(folder.join("records.json"), payload::records(scale.spilled).to_string())?;
    let output = Command::new(python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/incumbent.py"))
        .arg(folder)
        .arg(scale.small_spills.to_string())
        .output()
        .with_context(|| format!("cannot start {}", python.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "benches/incumbent.py failed: {errors}");
    let needs: HashMap<String, f64> = serde_json::from_slice(&output.stdout)?;
    for row in rows {
        row.incumbent = row.incumbent_key.and_then(|key| needs.get(key).copied());
    }
    Ok(())
}
