"""The report of a study: static HTML, pictures, and a manifest of what it was made with."""
