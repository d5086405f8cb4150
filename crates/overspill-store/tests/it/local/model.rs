//! The local store against the one in memory: the same calls give the same answers.

use overspill_store::MemoryStore;
use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Call {
    Put(BlobName, Vec<Vec<u8>>),
    DropStaged(Vec<Vec<u8>>),
    Read(BlobName, ByteRange),
    Delete(BlobName),
    List(Option<String>),
}

fn names() -> impl Strategy<Value = BlobName> {
    (0..2, 0..2, any::<bool>()).prop_map(|(run, call, is_index)| {
        let name = payload(&format!("run-{run}"), &format!("call-{call}"));
        if is_index { index_of(&name) } else { name }
    })
}

fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let piece = (any::<u8>(), prop_oneof![0..10_usize, 60_000..70_000_usize])
        .prop_map(|(byte, len)| (0..len).map(|n| byte.wrapping_add(n as u8)).collect());
    proptest::collection::vec(piece, 0..4)
}

fn calls() -> impl Strategy<Value = Call> {
    let at = || prop_oneof![0..20_u64, 59_000..200_000_u64, Just(u64::MAX)];
    let range = prop_oneof![
        (at(), at()).prop_map(|(start, end)| ByteRange::Span(start..end)),
        at().prop_map(ByteRange::Last),
    ];
    prop_oneof![
        4 => (names(), pieces()).prop_map(|(name, pieces)| Call::Put(name, pieces)),
        1 => pieces().prop_map(Call::DropStaged),
        4 => (names(), range).prop_map(|(name, range)| Call::Read(name, range)),
        1 => names().prop_map(Call::Delete),
        1 => proptest::option::of("run-[0-2]|\\.staging|\\.").prop_map(Call::List),
    ]
}

/// The answer to a call as text, without times.
async fn answer(store: &dyn StoreExt, call: &Call) -> String {
    let stage = async |pieces: &[Vec<u8>]| {
        let mut stage = store.stage().await.unwrap();
        for piece in pieces {
            stage.append(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        stage
    };
    match call {
        Call::Put(name, pieces) => format!("{:?}", stage(pieces).await.commit(name).await.unwrap()),
        Call::DropStaged(pieces) => {
            drop(stage(pieces).await);
            String::new()
        }
        Call::Read(name, range) => match store.read(name, range.clone()).await {
            Ok(slice) => {
                let stat = store.stat(name).await.unwrap();
                assert_eq!(stat.len, slice.blob_len);
                format!("{} of {}", Digest::of(&slice.bytes), slice.blob_len)
            }
            Err(error) => error.to_string(),
        },
        Call::Delete(name) => format!("{:?}", store.delete(name.handle()).await.is_ok()),
        Call::List(run) => {
            let found = store.list(run.as_deref()).await.unwrap();
            format!(
                "{:?}",
                found.iter().map(|(handle, stat)| (handle, stat.len)).collect::<Vec<_>>()
            )
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn files_and_memory_answer_alike(calls in proptest::collection::vec(calls(), 1..12)) {
        let scene = Scene::new();
        let memory = MemoryStore::new();
        for call in &calls {
            let (local, memory) =
                block_on(async { (answer(&scene.store, call).await, answer(&memory, call).await) });
            prop_assert_eq!(local, memory, "{:?}", call);
        }
        prop_assert_eq!(scene.staged_files(), 0);
    }
}
