// In place of Highway's: files are compiled once, for the vector model.
