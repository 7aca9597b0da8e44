"""What is minimised: losses, regularisers, adversaries, teachers, weights of tasks."""
