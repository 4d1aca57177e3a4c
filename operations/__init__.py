"""What operators look at: the admin's front page, the usage of tokens, and the charts for both."""
