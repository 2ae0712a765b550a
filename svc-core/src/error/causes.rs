//! The causes of a failure, for the server's log and the operator.

use super::{Code, Error};

impl Error {
    /// Returns the causes of the error, nearest first. Each cause occurs once, on one line.
    ///
    /// The list is for the server's log and the operator, never for a caller.
    pub fn causes(&self) -> Vec<String> {
        let mut causes: Vec<String> = Vec::new();
        let mut next = self.cause().map(|cause| cause as &(dyn std::error::Error + 'static));
        while let Some(cause) = next {
            let text = match cause.downcast_ref::<Self>() {
                // The detail of an internal error only refers to the cause.
                Some(own) if own.code == Code::Internal => String::new(),
                Some(own) => own.detail().to_owned(),
                None => cause.to_string(),
            };
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            // The text of some errors repeats the cause.
            if causes.iter().all(|known| !known.contains(&text)) && !self.detail.contains(&text) {
                causes.push(text);
            }
            next = cause.source();
        }
        causes
    }

    /// Returns the detail and all causes on one line, for the operator.
    pub fn line(&self) -> String {
        let causes = self.causes().join(": ");
        if causes.is_empty() { self.detail().to_owned() } else { format!("{} ({causes})", self.detail) }
    }
}
