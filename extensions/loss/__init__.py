"""What is minimised: losses, regularisers, teachers."""
