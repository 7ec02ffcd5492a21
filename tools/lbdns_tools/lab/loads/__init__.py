"""What a farm is loaded and disturbed with during a study."""
