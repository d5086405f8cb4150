//! Puts the proxy before the MCP servers of a client's configuration, and takes it away again:
//! texts in, texts out.

mod client;
mod document;
mod entry;
mod left;

pub(crate) use client::Client;
pub(crate) use document::Syntax;
use document::{Document, Server};
use entry::Edit;
pub(crate) use entry::{HEADERS, Proxy, URL};
pub(crate) use left::Left;

/// What becomes of one server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) name: String,
    /// How it was started or reached, without what is secret.
    pub(crate) before: String,
    /// How it now is, or why it stays.
    pub(crate) after: Result<String, Left>,
    /// What the person must know or do about it.
    pub(crate) notes: Vec<String>,
}

/// A configuration after a change.
#[derive(Debug)]
pub(crate) struct Changed {
    pub(crate) text: String,
    pub(crate) servers: Vec<Change>,
}

impl Changed {
    /// What became of `before`, which stays to the byte where nothing was changed.
    fn new(before: &str, after: String, changes: Vec<Option<Change>>) -> Self {
        let mut changed = Self { text: after, servers: changes.into_iter().flatten().collect() };
        if !changed.is_any() {
            before.clone_into(&mut changed.text);
        }
        changed
    }

    /// Whether it is any other than it was.
    pub(crate) fn is_any(&self) -> bool {
        self.servers.iter().any(|server| server.after.is_ok())
    }
}

/// The names of the servers of a configuration.
pub(crate) fn names(syntax: Syntax, text: &str) -> Result<Vec<String>, String> {
    let servers = Document::parse(syntax, text)?.servers();
    Ok(servers.into_iter().map(|server| server.name).collect())
}

/// Puts the proxy before each server whose name is `wanted`. `is_program` says whether there is one of
/// that name, for a note where there is none.
pub(crate) fn wrap(
    syntax: Syntax,
    text: &str,
    proxy: &Proxy,
    wanted: impl Fn(&str) -> bool,
    is_program: impl Fn(&str) -> bool,
) -> Result<Changed, String> {
    let mut document = Document::parse(syntax, text)?;
    let servers = document.servers();
    let mut changes = change(&mut document, |server| {
        wanted(&server.name).then(|| entry::wrap(&server.entry, proxy))
    });
    for (server, change) in servers.iter().zip(&mut changes) {
        if let Some(change) = change.as_mut().filter(|change| change.after.is_ok()) {
            let notes = entry::notes(&server.entry, &is_program).into_iter();
            change.notes = notes.map(|note| note.of(&server.name)).collect();
        }
    }
    Ok(Changed::new(text, document.text(), changes))
}

/// Takes the proxy away from before each server.
///
/// `copy` is the configuration as it was before. A server that was not changed since comes back from
/// it as it was written there, so that a file that was not changed since comes back byte for byte;
/// from one that was, only the proxy goes. One that was behind it in the copy stays so. What no copy
/// has is written as `client` has it.
///
/// `programs` are names of this program, besides those that are known by their look.
pub(crate) fn unwrap(
    syntax: Syntax,
    client: Client,
    text: &str,
    copy: Option<&str>,
    programs: &[String],
) -> Result<Changed, String> {
    let before = match copy.map(|copy| Document::parse(syntax, copy)) {
        Some(Ok(copy)) => copy.servers(),
        _ => Vec::new(),
    };
    let like = |server: &Server| before.iter().find(|it| it.is_like(server));
    let mut document = Document::parse(syntax, text)?;
    let client_of = |server: &Server| match server.client {
        Client::Unknown => client,
        known => known,
    };
    let mut changes = change(&mut document, |server| {
        let before = like(server).map(|it| &it.entry);
        let undone = |entry| entry::unwrap(entry, before, client_of(server), programs);
        let undoing = undone(&server.entry)?;
        let was_behind_it = before.is_some_and(|before| undone(before).is_some());
        Some(if was_behind_it { Err(Left::Before) } else { undoing })
    });
    for (server, change) in document.servers().iter().zip(&mut changes) {
        let Some(change) = change.as_mut().filter(|change| change.after.is_ok()) else { continue };
        let before = like(server);
        let same = |it: &&Server| entry::means_the_same(&it.entry, &server.entry);
        if let Some(before) = before.filter(same) {
            document.restore(server, before);
        }
        let note = entry::note_of_key(&server.entry, before.map(|it| &it.entry), client_of(server));
        change.notes.extend(note.map(|note| note.of(&server.name)));
    }
    let undone = document.text();
    // Ends of lines that are not all alike are read as one kind, and only the copy knows them.
    let as_before = |copy: &&str| Document::parse(syntax, copy).is_ok_and(|it| it.text() == undone);
    let undone = copy.filter(as_before).map_or_else(|| undone.clone(), str::to_owned);
    Ok(Changed::new(text, undone, changes))
}

/// Whether `text` has every server of `other`, each as it is there.
pub(crate) fn has_all_of(syntax: Syntax, text: &str, other: &str) -> bool {
    let servers = |text| Document::parse(syntax, text).map(|document| document.servers());
    let (Ok(servers), Ok(others)) = (servers(text), servers(other)) else { return false };
    let is_there = |other: &Server| {
        servers.iter().any(|it| it.is_like(other) && entry::means_the_same(&it.entry, &other.entry))
    };
    others.iter().all(is_there)
}

/// Changes the servers for which there is a decision, and says what becomes of each of those.
fn change(
    document: &mut Document,
    decide: impl Fn(&Server) -> Option<Result<Vec<Edit>, Left>>,
) -> Vec<Option<Change>> {
    let servers = document.servers();
    let decide = |server: &Server| Some(server.fault.clone().map_or(decide(server)?, Err));
    let decisions: Vec<_> = servers.iter().map(decide).collect();
    for (server, decision) in servers.iter().zip(&decisions) {
        if let Some(Ok(edits)) = decision {
            document.edit(server, edits);
        }
    }
    let now = document.servers();
    let changes = servers.into_iter().zip(decisions).zip(now).map(|((server, decision), now)| {
        let before = entry::summary(&server.entry);
        let after = decision?.map(|_| entry::summary(&now.entry));
        Some(Change { name: server.name, before, after, notes: Vec::new() })
    });
    changes.collect()
}

#[cfg(test)]
mod tests;
