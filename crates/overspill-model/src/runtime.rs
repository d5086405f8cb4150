//! Where HTTP runs when the host has no tokio runtime.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::error::ModelError;

/// One thread, started when it is first needed. It is never dropped, because a runtime must not be
/// dropped by what runs on one.
static OWN: LazyLock<Result<Runtime, String>> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(1).thread_name("overspill-model").enable_all();
    builder.build().map_err(|error| error.to_string())
});

/// A task that ends with whoever waits for it.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Awaits `future` on a thread of its own.
pub(crate) async fn elsewhere<T: Send + 'static>(
    future: impl Future<Output = T> + Send + 'static,
) -> Result<T, ModelError> {
    let runtime =
        OWN.as_ref().map_err(|error| ModelError::NoClient { source: error.as_str().into() })?;
    let mut task = Task(runtime.spawn(future));
    (&mut task.0).await.map_err(|error| ModelError::NoClient { source: error.into() })
}
