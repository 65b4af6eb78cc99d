"""The workspace runner `octavo`: finds the packages of the workspace, tests, checks, demonstrates and measures them."""
