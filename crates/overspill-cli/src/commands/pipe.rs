//! `overspill pipe`: the same as `run` for what comes through a pipe.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};

use futures_lite::future::block_on;
use overspill::ToolCall;

use super::view::View;
use crate::cli;
use crate::failure::Failure;
use crate::feed::Feed;
use crate::settings::Settings;
use crate::signals::{Handled, Interrupt, Signals};

pub(crate) fn pipe(common: &cli::Common, args: &cli::Pipe) -> Result<u8, Failure> {
    let settings = Settings::load(common, &args.policy, None)?;
    let interrupt = Interrupt::default();
    let (limits, store) = settings.limits(&interrupt)?;
    let call = args.call.clone().unwrap_or_else(|| args.tool.clone());
    let stream = limits.stream(&ToolCall::new(settings.run(), call, args.tool.as_str()));

    let (stop, stopper) = io::pipe()?;
    let mut stopper = Some(stopper);
    let signal = Arc::new(AtomicI32::new(0));
    let last = Arc::clone(&signal);
    let is_alone = io::stdin().is_terminal();
    let watching = Signals::catch()?.watch(interrupt, move |received| {
        last.store(received.signal.as_raw(), Ordering::Relaxed);
        // Whoever writes into the pipe gets what the terminal sends too, and ends it.
        if received.from_terminal && !is_alone {
            return Handled::Told;
        }
        match stopper.take() {
            Some(_) => Handled::Told,
            None => Handled::NobodyLeft,
        }
    });
    watching
        .map_err(|error| Failure::from(error).context("nothing was read: no thread can be had"))?;

    let mut view = View::new(stream, store, common.json);
    block_on(async {
        view.take_in(&mut Some(Feed::new(io::stdin().lock(), stop))).await?;
        view.finish(None).await
    })?;
    Ok(match signal.load(Ordering::Relaxed) {
        0 => 0,
        signal => 128 + signal as u8,
    })
}
