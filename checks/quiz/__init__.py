"""Questions about the student's own functions; every option is true or false by running them."""
