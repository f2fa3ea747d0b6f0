//! What the pages load: one style sheet, the icon and the modules, all part of the binary.

use axum::extract::Path;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

macro_rules! assets {
    ($($name:literal: $kind:literal,)*) => {
        /// Name, media type and content of each.
        const ASSETS: &[(&str, &str, &[u8])] =
            &[$(($name, $kind, include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/assets/", $name))),)*];
    };
}

assets! {
    "dashboard.css": "text/css; charset=utf-8",
    "icon.svg": "image/svg+xml",
    "api.js": "text/javascript; charset=utf-8",
    "candidate.js": "text/javascript; charset=utf-8",
    "confirm.js": "text/javascript; charset=utf-8",
    "dashboard.js": "text/javascript; charset=utf-8",
    "letters.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "message-form.js": "text/javascript; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "publish.js": "text/javascript; charset=utf-8",
    "spark.js": "text/javascript; charset=utf-8",
    "units.js": "text/javascript; charset=utf-8",
}

/// What the pages load
///
/// Browsers keep them and ask again whether they are still the same, so that a new version of the broker is seen at once.
#[utoipa::path(
    get, path = "/assets/{file}", tag = "dashboard", security(()), params(("file" = String, Path, description = "Name of the file")),
    responses(
        (status = 200, description = "The file", content((String = "text/css"), (String = "text/javascript"), (String = "image/svg+xml"))),
        (status = 304, description = "It is the same as before"),
        (status = 404, description = "There is none of that name", body = String, content_type = "text/plain"),
    )
)]
pub(super) async fn asset(Path(file): Path<String>, headers: HeaderMap) -> Response {
    let Some((_, kind, content)) = ASSETS.iter().find(|(name, ..)| *name == file) else {
        return (StatusCode::NOT_FOUND, "there is no such file\n").into_response();
    };
    let tag = tag(content);
    let kept = [(header::ETAG, tag.as_str()), (header::CACHE_CONTROL, "no-cache")];
    let is_same = headers.get_all(header::IF_NONE_MATCH).iter().any(|value| value.to_str().is_ok_and(|value| value.contains(&tag)));
    match is_same {
        true => (StatusCode::NOT_MODIFIED, kept).into_response(),
        false => (kept, [(header::CONTENT_TYPE, *kind)], *content).into_response(),
    }
}

/// An entity tag of the content.
fn tag(content: &[u8]) -> String {
    let digest = Sha256::digest(content);
    format!("\"{}\"", digest[..8].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_that_the_browser_has_is_not_sent_again() {
        let first = asset(Path("dashboard.css".into()), HeaderMap::new()).await;
        assert_eq!(first.status(), StatusCode::OK);
        let tag = first.headers()[header::ETAG].clone();
        let again = asset(Path("dashboard.css".into()), HeaderMap::from_iter([(header::IF_NONE_MATCH, tag)])).await;
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
        assert_eq!(asset(Path("../Cargo.toml".into()), HeaderMap::new()).await.status(), StatusCode::NOT_FOUND);
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/assets")).unwrap();
        for entry in folder {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(ASSETS.iter().any(|(known, ..)| *known == name), "{name} is not in the list");
        }
    }
}
