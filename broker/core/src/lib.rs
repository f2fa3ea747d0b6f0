//! The two pure machines of the broker: durable state and volatile dispatch.
