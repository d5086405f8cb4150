#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| overspill_fuzz::wire::check(data));
