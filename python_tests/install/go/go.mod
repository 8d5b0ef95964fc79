module use

go 1.19
