//! What a contract costs on a large closure of public schemas: compiling its text (protox, on the client), registering it, and comparing it
//! with another version. The check is to cost little beside the compiler.
//!
//! The schemas are those of `cargo xtask corpus`; without them there is nothing to measure.

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, criterion_group, criterion_main};
use protox::{
    Compiler,
    file::{ChainFileResolver, GoogleFileResolver, IncludeFileResolver},
};
use qwerq_broker::registry::Contract;
use qwerq_broker::registry::compatibility::{Version, compare};

/// A service whose messages reach most of its product's resources: the largest closure of the corpus that is one product.
const FILE: &str = "google/ads/googleads/v25/services/google_ads_service.proto";
const MESSAGE: &str = "google.ads.googleads.v25.services.GoogleAdsRow";

fn compile(corpus: &Path) -> Vec<u8> {
    let mut resolver = ChainFileResolver::new();
    resolver.add(GoogleFileResolver::new());
    resolver.add(IncludeFileResolver::new(corpus.to_owned()));
    let mut compiler = Compiler::with_file_resolver(resolver);
    compiler.include_imports(true).include_source_info(true);
    compiler.open_file(FILE).expect("the corpus compiles");
    compiler.encode_file_descriptor_set()
}

fn contracts(criterion: &mut Criterion) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/corpus/google-proto-files-5.0.3");
    if !corpus.join(FILE).is_file() {
        println!("Skipped: {} is not there; run `cargo xtask corpus`", corpus.join(FILE).display());
        return;
    }
    let set = compile(&corpus);
    let version = || Version::compile(&set, MESSAGE, None).expect("the corpus links");
    let mut group = criterion.benchmark_group("contracts");
    group.sample_size(10);
    group.bench_function("protox", |bencher| bencher.iter(|| black_box(compile(&corpus))));
    group.bench_function("compile", |bencher| bencher.iter(|| Contract::compile(black_box(&set), MESSAGE, None).expect("a contract")));
    group.bench_function("link", |bencher| bencher.iter(|| black_box(version())));
    let (old, new) = (version(), version());
    group.bench_function("compare", |bencher| bencher.iter(|| compare(black_box(&old), black_box(&new))));
    group.finish();
}

criterion_group!(benches, contracts);
criterion_main!(benches);
