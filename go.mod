module skep

go 1.26
