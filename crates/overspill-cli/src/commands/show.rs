//! `overspill show`: the receipt of a payload.

use futures_lite::future::block_on;
use overspill::Receipt;
use overspill::store::{BlobName, IndexHealth, StoreExt};
use serde::Serialize;

use crate::cli;
use crate::failure::Failure;
use crate::output::{self, Out, grouped};
use crate::settings::Settings;
use crate::shelf::Shelf;

#[derive(Debug, Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    receipt: &'a Receipt,
    modified: i64,
    index: &'static str,
}

pub(crate) fn show(common: &cli::Common, args: &cli::Show) -> Result<u8, Failure> {
    let settings = Settings::of_reader(common)?;
    let shelf = Shelf::open(&settings)?;
    let handle = shelf.handle(&args.handle)?;
    block_on(async {
        let stored = shelf.stored(&handle).await?;
        let modified = shelf.store.stat(&BlobName::Payload(handle)).await?.modified;
        let receipt = stored.receipt();
        let index = match stored.check_index().await? {
            IndexHealth::Sound => "sound",
            IndexHealth::Missing => "missing",
            IndexHealth::Damaged => "damaged",
        };
        let mut out = Out::new();
        if common.json {
            out.json(&Shown { receipt, modified: output::unix(modified), index })?;
        } else {
            let rows = [
                ("handle", receipt.handle.to_string()),
                ("tool", receipt.tool.clone()),
                ("media type", receipt.media_type.clone()),
                ("bytes", grouped(receipt.bytes)),
                ("characters", grouped(receipt.chars)),
                ("lines", grouped(receipt.lines)),
                ("digest", format!("BLAKE3 {}", receipt.digest)),
                ("index", index.to_owned()),
                ("age", output::age(modified)),
            ];
            let rows = rows.map(|(key, value)| vec![key.to_owned(), value]);
            out.text(&output::table(&[], &[], rows.into()))?;
        }
        Ok(out.flush().map(|()| 0)?)
    })
}
