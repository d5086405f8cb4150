//! The store as people reach into it: by handle, or by as much of one as names a single payload.

use std::sync::Arc;

use futures_lite::future::block_on;
use overspill::store::{BlobName, Handle, Store, StoreError, StoreExt, Stored};
use overspill_store::LocalStore;

use crate::failure::Failure;
use crate::settings::{Settings, StoreRoot};

/// Candidates that an error names at most.
const NAMED: usize = 5;

/// An opened store.
#[derive(Debug)]
pub(crate) struct Shelf {
    /// What can be listed.
    pub(crate) store: LocalStore,
    /// The same, as the library's reader takes it.
    pub(crate) port: Arc<dyn Store>,
    place: String,
}

impl Shelf {
    pub(crate) fn open(settings: &Settings) -> Result<Self, Failure> {
        let store = settings.open_store()?;
        let place = match &settings.store {
            StoreRoot::At(path, _) => path.display().to_string(),
            StoreRoot::Memory | StoreRoot::Homeless => String::new(),
        };
        Ok(Self { port: Arc::new(store.clone()), store, place })
    }

    /// The handle that `text` is, or the only one that it is the beginning of, or whose digest it
    /// is the beginning of. The name of a call is its newest payload.
    pub(crate) fn handle(&self, text: &str) -> Result<Handle, Failure> {
        // People and models copy the quotes around a handle too.
        let text = text.trim_matches(|c: char| c.is_whitespace() || "\"'`<>".contains(c));
        if let Ok(handle) = text.parse() {
            return Ok(handle);
        }
        if text.is_empty() {
            return Err(Failure::usage("the handle is empty").hint(self.where_to_look()));
        }
        let mut found = block_on(self.store.list(None))?;
        found.retain(|(handle, _)| {
            let is_digest = |(_, digest): (&str, &str)| digest.starts_with(text);
            handle.as_str().starts_with(text) || parts(handle).is_some_and(is_digest)
        });
        // Newest first; of one moment, by name, so that the answer is always the same.
        found.sort_by(|(a, of_a), (b, of_b)| {
            of_b.modified.cmp(&of_a.modified).then_with(|| a.as_str().cmp(b.as_str()))
        });
        let of_call = |handle: &Handle| parts(handle).is_some_and(|(call, _)| call == text);
        if let Some((newest, _)) = found.iter().find(|(handle, _)| of_call(handle)) {
            return Ok(newest.clone());
        }
        match found.as_slice() {
            [(handle, _)] => Ok(handle.clone()),
            [] => {
                Err(Failure::new(format!("nothing is stored as {text:?}"))
                    .hint(self.where_to_look()))
            }
            several => {
                let names: Vec<&str> =
                    several.iter().take(NAMED).map(|(handle, _)| handle.as_str()).collect();
                let more = match several.len().saturating_sub(NAMED) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                Err(Failure::new(format!("{text:?} could be {} payloads", several.len()))
                    .hint(format!("say which, newest first: {}{more}", names.join(", "))))
            }
        }
    }

    /// Opens a payload.
    pub(crate) async fn stored(&self, handle: &Handle) -> Result<Stored, Failure> {
        Stored::open(&self.port, handle).await.map_err(|error| self.explain(error))
    }

    fn explain(&self, error: StoreError) -> Failure {
        let is_missing = matches!(error, StoreError::NotFound { .. });
        let failure = Failure::from(error);
        if is_missing { failure.hint(self.where_to_look()) } else { failure }
    }

    /// What the library says to a model, with a hint for a person where there is one.
    pub(crate) fn explain_sentence(&self, handle: &Handle, sentence: String) -> Failure {
        let failure = Failure::new(sentence);
        match block_on(self.store.stat(&BlobName::Payload(handle.clone()))) {
            Err(StoreError::NotFound { .. }) => failure.hint(self.where_to_look()),
            _ => failure,
        }
    }

    fn where_to_look(&self) -> String {
        format!("`overspill list` shows what is stored in {}", self.place)
    }
}

/// The call of a handle, with its run, and its digest.
fn parts(handle: &Handle) -> Option<(&str, &str)> {
    handle.as_str().rsplit_once('.')
}
