"""What the documents promise, one file a document, through the public interface."""
